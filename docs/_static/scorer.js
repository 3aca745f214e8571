// How the site's search orders what it finds: guides before reference pages, lists of everything last. See docs/pages/search_words.py.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    if (/^(cli|promises|changelog|contributing|performance)$/.test(page)) return score - 10;
    const guide = !page.includes("/") && !page.endsWith("_reference");
    return guide ? score + 3 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
