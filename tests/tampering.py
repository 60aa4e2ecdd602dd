"""Files of runs changed behind holdfast's back, without a checksum that would give it away before they are parsed."""

from holdfast import files


def put(path, content):
    """Write text or bytes as a version of holdfast without checksums would have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.remove(path)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
