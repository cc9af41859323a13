"use strict";

// The search of the site: every section of every page is in searchIndex.
const search = new MiniSearch({ fields: ["heading", "text", "page"], storeFields: ["heading", "page", "url"], searchOptions: { boost: { heading: 4, page: 2 }, prefix: true, fuzzy: 0.1, combineWith: "AND" } });
search.addAll(searchIndex);

const field = document.getElementById("search"), results = document.getElementById("results"), home = document.getElementById("home");

field.addEventListener("input", () => {
  const found = search.search(field.value).slice(0, 12);
  results.hidden = field.value.trim() === "";
  results.replaceChildren(
    ...found.map(({ heading, page, url }) => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = new URL(url, home.href);
      link.textContent = heading === page ? page : `${page}: ${heading}`;
      item.append(link);
      return item;
    }),
  );
  if (!found.length) results.replaceChildren(Object.assign(document.createElement("li"), { textContent: "Nothing is found." }));
});
