"use strict";
// Show only what contains all words of the search field: entries of tables and codes, or whole pages.
(function () {
  var field = document.getElementById("search");
  var found = document.getElementById("found");
  var sections = Array.from(document.querySelectorAll("main > section"), function (section) {
    var entries = Array.from(section.querySelectorAll("tbody tr, details"), function (one) {
      return { element: one, text: one.textContent.toLowerCase() };
    });
    return { element: section, text: section.textContent.toLowerCase(), entries: entries };
  });

  function search() {
    var words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    var holds = function (one) {
      return words.every(function (word) { return one.text.includes(word); });
    };
    var count = 0;
    sections.forEach(function (section) {
      var hits = section.entries.filter(holds);
      var all = !words.length || (!hits.length && holds(section));
      section.entries.forEach(function (one) {
        one.element.hidden = !all && !hits.includes(one);
        if (one.element.tagName === "DETAILS") one.element.open = words.length > 0 && hits.length < 6;
      });
      section.element.hidden = !all && !hits.length;
      count += all ? 1 : hits.length;
    });
    found.textContent = words.length ? count + " found" : "";
  }

  field.addEventListener("input", search);
})();
