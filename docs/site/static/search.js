"use strict";

// The search of the site: every section of every page is in searchIndex. Words that say nothing are left out; what is read to
// use the library counts more than evidence and what is for those who work on it.
const idle = new Set(["a", "an", "and", "for", "in", "is", "it", "not", "of", "on", "only", "or", "the", "to", "until", "was", "with"]);
const weights = [[/^(docs\/evidence\/|changelog|contributing|security)/, 0.2], [/^docs\/(migrate|retryvet)\./, 0.6], [/^docs\/sdks\./, 0.8], [/^docs\/why\./, 1.7]];
const words = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u);
const search = new MiniSearch({
  fields: ["heading", "text", "page"],
  storeFields: ["heading", "page", "url"],
  // http_503 is found by 503 too, and retrygrpc by gRPC.
  tokenize: (text) => words(text).flatMap((word) => [word, ...(word.includes("_") ? word.split("_") : []), ...(/^retry./.test(word) ? [word.slice(5)] : [])]),
  processTerm: (term) => (idle.has(term) ? null : term),
  searchOptions: {
    boost: { heading: 4, page: 2 }, prefix: (term) => term.length > 2, fuzzy: (term) => (/\d/.test(term) ? false : 0.1), tokenize: words,
    boostDocument: (id, term, { url }) => weights.find(([page]) => page.test(url))?.[1] ?? 1,
  },
});
search.addAll(searchIndex);

// sections returns those with all words of the query, or else with some of them, the best first.
function sections(query) {
  const all = search.search(query, { combineWith: "AND" });
  return all.length ? all : search.search(query);
}

const field = document.getElementById("search"), results = document.getElementById("results"), home = document.getElementById("home");

field.addEventListener("input", () => {
  const found = sections(field.value).slice(0, 12);
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
