"use strict";
(() => {
  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  // Colours in the figures are names of variables of the style sheet; ask the browser for their present value.
  const ink = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };
  const inked = (value, key = "") => {
    if (Array.isArray(value)) return value.map((item) => inked(item));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, inked(item, name)]));
    }
    return key.endsWith("color") && String(value).startsWith("var(") ? ink(value) : value;
  };
  const config = { responsive: true, displaylogo: false, modeBarButtons: [["toImage"]] };
  const draw = (width) => {
    for (const [id, spec] of Object.entries(specs)) {
      const { data, layout } = inked(spec);
      Plotly.react(id, data, { ...layout, width }, config);
    }
  };

  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = document.getElementById("theme");
  const show = (theme, width) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    button?.setAttribute("aria-pressed", String(dark()));
    draw(width);
  };
  button?.addEventListener("click", () => show(dark() ? "light" : "dark"));
  system.addEventListener("change", () => show(root.dataset.theme));
  show();

  for (const select of document.querySelectorAll(".pick select")) {
    const panels = [...select.options].map((option) => document.getElementById(option.value));
    const choose = () => panels.forEach((panel) => { panel.hidden = panel.id !== select.value; });
    select.addEventListener("change", choose);
    choose();
  }

  // On paper everything is light and open, and charts are as wide as a page.
  let before;
  addEventListener("beforeprint", () => {
    before = [root.dataset.theme, [...document.querySelectorAll("details:not([open])")]];
    before[1].forEach((item) => { item.open = true; });
    show("light", 640);
  });
  addEventListener("afterprint", () => {
    before[1].forEach((item) => { item.open = false; });
    show(before[0]);
  });

  // A link to the numbers opens what holds them.
  for (const link of document.querySelectorAll("figcaption a")) {
    link.addEventListener("click", () => {
      document.querySelector(link.hash).querySelectorAll("details").forEach((item) => { item.open = true; });
    });
  }

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target.id);
      else seen.delete(target.id);
    }
    const here = [...links.keys()].find((id) => seen.has(id));
    for (const [id, link] of links) {
      if (id === here) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-20% 0px -60% 0px" });
  document.querySelectorAll("main section").forEach((section) => watch.observe(section));
})();
