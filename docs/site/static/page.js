"use strict";

// On a phone the menu would fill the screen, so it is closed there.
const pages = document.querySelector(".pages details"), narrow = matchMedia("(max-width: 50rem)");
const fold = () => (pages.open = !narrow.matches);
narrow.addEventListener("change", fold);
fold();

// A corner of a table that is empty heads nothing.
for (const head of document.querySelectorAll("main th")) {
  if (!head.textContent.trim()) head.replaceWith(document.createElement("td"));
}

// A table or a block of code that is wider than the page scrolls: it can be reached and scrolled
// by the keyboard, and only then.
for (const table of document.querySelectorAll("main table")) {
  const box = Object.assign(document.createElement("div"), { className: "scroll" });
  table.replaceWith(box);
  box.append(table);
}
const scrolls = [...document.querySelectorAll("main .scroll, main pre")];
const labels = new Map();
for (const node of document.querySelectorAll("main :is(h1, h2, h3, .scroll, pre)")) {
  if (node.tagName.startsWith("H")) labels.last = node.textContent;
  labels.set(node, labels.last);
}
const reach = () => {
  for (const box of scrolls) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      const kind = box.tagName === "PRE" ? "Code" : "Table";
      box.setAttribute("aria-label", `${kind} ${1 + scrolls.indexOf(box)}: ${labels.get(box) ?? ""}`);
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  }
};
addEventListener("resize", reach);
reach();
