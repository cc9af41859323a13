"use strict";

// The command that shows the page answers for the library.

const library = Promise.resolve((...question) =>
  fetch("ask", { method: "POST", body: JSON.stringify(question) }).then((response) => response.json()),
);
