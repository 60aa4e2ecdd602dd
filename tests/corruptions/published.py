"""The published numbers of the corruptions, written out a second time, from the scripts themselves.

Copied by hand from github.com/hendrycks/robustness, ImageNet-C/create_c: make_cifar_c.py (commit ca36008),
make_tinyimagenet_c.py (7a64e6a), make_imagenet_c.py (e0377d4; the same as in imagecorruptions 1.1.2 but for its elastic
transform), and from github.com/facebookresearch/augmentation-corruption, imagenet_c_bar/cifar10_c_bar.csv (c7d90e3).
One line for each severity; numbers in the order of the scripts.
"""

CIFAR = {
    "gaussian_noise": ".04 | .06 | .08 | .09 | .10",
    "shot_noise": "500 | 250 | 100 | 75 | 50",
    "impulse_noise": ".01 | .02 | .03 | .05 | .07",
    "defocus_blur": "0.3 0.4 | 0.4 0.5 | 0.5 0.6 | 1 0.2 | 1.5 0.1",
    "glass_blur": "0.05 1 1 | 0.25 1 1 | 0.4 1 1 | 0.25 1 2 | 0.4 1 2",
    "motion_blur": "6 1 | 6 1.5 | 6 2 | 8 2 | 9 2.5",
    "zoom_blur": "1.06 0.01 | 1.11 0.01 | 1.16 0.01 | 1.21 0.01 | 1.26 0.01",
    "snow": "0.1 0.2 1 0.6 8 3 0.95 | 0.1 0.2 1 0.5 10 4 0.9 | 0.15 0.3 1.75 0.55 10 4 0.9"
    " | 0.25 0.3 2.25 0.6 12 6 0.85 | 0.3 0.3 1.25 0.65 14 12 0.8",
    "frost": "1 0.2 | 1 0.3 | 0.9 0.4 | 0.85 0.4 | 0.75 0.45",
    "fog": ".2 3 | .5 3 | 0.75 2.5 | 1 2 | 1.5 1.75",
    "brightness": ".05 | .1 | .15 | .2 | .3",
    "contrast": ".75 | .5 | .4 | .3 | 0.15",
    "elastic_transform": "0 0 0.08 | 0.05 0.2 0.07 | 0.08 0.06 0.06 | 0.1 0.04 0.05 | 0.1 0.03 0.03",
    "pixelate": "0.95 | 0.9 | 0.85 | 0.75 | 0.65",
    "jpeg_compression": "80 | 65 | 58 | 50 | 40",
    "speckle_noise": ".06 | .1 | .12 | .16 | .2",
    "gaussian_blur": ".4 | .6 | 0.7 | .8 | 1",
    "spatter": "0.62 0.1 0.7 0.7 0.5 0 | 0.65 0.1 0.8 0.7 0.5 0 | 0.65 0.3 1 0.69 0.5 0"
    " | 0.65 0.1 0.7 0.69 0.6 1 | 0.65 0.1 0.5 0.68 0.6 1",
    "saturate": "0.3 0 | 0.1 0 | 1.5 0 | 2 0.1 | 2.5 0.2",
}
TINY_IMAGENET = {
    "gaussian_noise": "0.04 | 0.08 | .12 | .15 | .18",
    "shot_noise": "250 | 100 | 50 | 30 | 15",
    "impulse_noise": ".01 | .02 | .05 | .08 | .14",
    "defocus_blur": "0.5 0.6 | 1 0.1 | 1.5 0.1 | 2.5 0.01 | 3 0.1",
    "glass_blur": "0.1 1 1 | 0.5 1 1 | 0.6 1 2 | 0.7 2 1 | 0.9 2 2",
    "motion_blur": "10 1 | 10 1.5 | 10 2 | 10 2.5 | 12 3",
    "zoom_blur": "1.06 0.01 | 1.11 0.01 | 1.16 0.01 | 1.21 0.01 | 1.26 0.01",
    "snow": "0.1 0.2 1 0.6 8 3 0.8 | 0.1 0.2 1 0.5 10 4 0.8 | 0.15 0.3 1.75 0.55 10 4 0.7"
    " | 0.25 0.3 2.25 0.6 12 6 0.65 | 0.3 0.3 1.25 0.65 14 12 0.6",
    "frost": "1 0.3 | 0.9 0.4 | 0.8 0.45 | 0.75 0.5 | 0.7 0.55",
    "fog": ".4 3 | .7 3 | 1 2.5 | 1.5 2 | 2 1.75",
    "brightness": ".1 | .2 | .3 | .4 | .5",
    "contrast": ".4 | .3 | .2 | .1 | 0.05",
    "elastic_transform": "0 0 0.08 | 0.05 0.3 0.06 | 0.1 0.08 0.06 | 0.1 0.03 0.03 | 0.16 0.03 0.02",
    "pixelate": "0.9 | 0.8 | 0.7 | 0.6 | 0.5",
    "jpeg_compression": "65 | 58 | 50 | 40 | 25",
    "speckle_noise": ".15 | .2 | 0.25 | 0.3 | 0.35",
    "gaussian_blur": ".5 | .75 | 1 | 1.25 | 1.5",
    "spatter": "0.62 0.1 0.7 0.7 0.6 0 | 0.65 0.1 0.8 0.7 0.6 0 | 0.65 0.3 1 0.69 0.6 0"
    " | 0.65 0.1 0.7 0.68 0.6 1 | 0.65 0.1 0.5 0.67 0.6 1",
    "saturate": "0.3 0 | 0.1 0 | 2 0 | 5 0.1 | 30 0.2",
}
IMAGENET = {
    "gaussian_noise": ".08 | .12 | 0.18 | 0.26 | 0.38",
    "shot_noise": "60 | 25 | 12 | 5 | 3",
    "impulse_noise": ".03 | .06 | .09 | 0.17 | 0.27",
    "defocus_blur": "3 0.1 | 4 0.5 | 6 0.5 | 8 0.5 | 10 0.5",
    "glass_blur": "0.7 1 2 | 0.9 2 1 | 1 2 3 | 1.1 3 2 | 1.5 4 2",
    "motion_blur": "10 3 | 15 5 | 15 8 | 15 12 | 20 15",
    "zoom_blur": "1.11 0.01 | 1.16 0.01 | 1.21 0.02 | 1.26 0.02 | 1.31 0.03",
    "snow": "0.1 0.3 3 0.5 10 4 0.8 | 0.2 0.3 2 0.5 12 4 0.7 | 0.55 0.3 4 0.9 12 8 0.7"
    " | 0.55 0.3 4.5 0.85 12 8 0.65 | 0.55 0.3 2.5 0.85 12 12 0.55",
    "frost": "1 0.4 | 0.8 0.6 | 0.7 0.7 | 0.65 0.7 | 0.6 0.75",
    "fog": "1.5 2 | 2 2 | 2.5 1.7 | 2.5 1.5 | 3 1.4",
    "brightness": ".1 | .2 | .3 | .4 | .5",
    "contrast": "0.4 | .3 | .2 | .1 | .05",
    "elastic_transform": "2 0.7 0.1 | 2 0.08 0.2 | 0.05 0.01 0.02 | 0.07 0.01 0.02 | 0.12 0.01 0.02",
    "pixelate": "0.6 | 0.5 | 0.4 | 0.3 | 0.25",
    "jpeg_compression": "25 | 18 | 15 | 10 | 7",
    "speckle_noise": ".15 | .2 | 0.35 | 0.45 | 0.6",
    "gaussian_blur": "1 | 2 | 3 | 4 | 6",
    "spatter": "0.65 0.3 4 0.69 0.6 0 | 0.65 0.3 3 0.68 0.6 0 | 0.65 0.3 2 0.68 0.5 0"
    " | 0.65 0.3 1 0.65 1.5 1 | 0.67 0.4 1 0.65 1.5 1",
    "saturate": "0.3 0 | 0.1 0 | 2 0 | 5 0.1 | 20 0.2",
}
COMMON = {32: CIFAR, 64: TINY_IMAGENET, 224: IMAGENET}
"""By the side of the images."""

FROST_SCALE = {32: 0.2, 64: 0.3, 224: 1}
"""To which the photographs are resized first (`fx`, `fy`; not at all for ImageNet)."""

ELASTIC_SIDE = {32: 32, 64: 64, 224: 244}
"""By which the scripts multiply the shares of `elastic_transform`; 244 is a slip that its authors kept."""

CIFAR_BAR = """\
blue_noise_sample,0.7,1.4,2.1,3.5,4.2
checkerboard_cutout,1.0,2.0,3.0,4.0,5.0
inverse_sparkles,1.0,1.5,2.5,4.5,5.0
pinch_and_twirl,5.5,6.0,6.5,8.5,10.0
ripple,5.5,6.0,6.5,7.5,8.0
brownish_noise,2.5,4.0,5.5,6.5,7.0
circular_motion_blur,2.8,3.6,4.4,5.2,6.0
lines,0.5,1.0,1.5,2.0,2.5
sparkles,0.7,3.5,5.6,6.3,7.0
transverse_chromatic_abberation,1.0,2.0,5.0,9.0,10.0
"""


def published(kind: str, severity: int, side: int) -> list[float]:
    """The numbers of a script in the order of our functions."""
    row = [float(number) for number in COMMON[side][kind].split("|")[severity - 1].split()]
    if kind == "frost":
        return [*row, FROST_SCALE[side]]
    if kind == "elastic_transform":
        return [ELASTIC_SIDE[side] * share for share in row]
    if kind == "spatter":  # the last number says whether the one before is the strength of water or the blur of mud
        *rest, strength, mud = row
        return [*rest, 0 if mud else strength, strength if mud else 0]
    return row
