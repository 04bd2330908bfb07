// Where seeds part: the tree of the beginnings that answers have in common.

import {button, count, element, renew, shorten, spelled, sum} from "./text.js";
import {Cells} from "./card.js";

// {members, from, to, children}: the answers (by number) that have the tokens before `to` in common; those from `from`
// on are this node's own.
function prefixTree(texts, members = texts.map((_, i) => i), from = 0) {
  let to = from;
  const first = texts[members[0]] ?? [];
  while (to < first.length && members.every((i) => texts[i][to] === first[to])) to++;
  const ways = new Map();
  if (members.length > 1) for (const i of members) {
    const token = texts[i][to];
    if (token !== undefined) ways.set(token, [...(ways.get(token) ?? []), i]);
  }
  const children = [...ways.values()].sort((a, b) => b.length - a.length).map((m) => prefixTree(texts, m, to));
  return {members, from, to, children};
}

// For each answer where its way leaves that of others: {at, seeds}, with so many seeds from there on.
export function forks(texts) {
  const tree = prefixTree(texts), marks = texts.map(() => []);
  const walk = (node) => node.children.forEach((child) => {
    for (const i of child.members) marks[i].push({at: child.from, seeds: child.members.length});
    walk(child);
  });
  walk(tree);
  return marks;
}

// At each position, up to where everyone is alone: the beginnings that two or more seeds have in common, most seeds first.
function agreement(tree) {
  const at = [];
  const walk = (node) => {
    if (node.members.length > 1) for (let k = node.from; k < node.to; k++) (at[k] ??= []).push(node.members);
    node.children.forEach(walk);
  };
  walk(tree);
  return Array.from(at, (groups) => (groups ?? []).sort((a, b) => b.length - a.length));
}

const tokens = (n) => count(n, "token");

// at: what agreement() says.
function inWords(tree, at) {
  const total = tree.members.length, all = tree.to, half = at.filter((g) => 2 * g[0]?.length >= total).length;
  if (!tree.children.length) return `All ${total} say the same.`;
  return (all ? `All ${total} begin with the same ${tokens(all)}` : "They part at the first token") +
    (half > all ? `, at least half with the same ${half}` : "") +
    (twins(tree) ? `; ${twins(tree)} are equal to others up to the end.`
      : at.length ? `; behind token ${at.length} each goes its own way.` : ".");
}

// How many answers are the same as another one.
const twins = ({members, children}) => (children.length ? sum(children.map(twins)) : members.length > 1 ? members.length : 0);

const MOST_BARS = 240;

// open(i) opens the column of answer i.
export class BranchesPanel {
  constructor(parent, open) {
    this.open = open;
    this.words = element("p", {});
    this.strip = element("div", {class: "strip", tabindex: 0, role: "group",
      "aria-label": "How many seeds agree at each token; arrow keys go through them"});
    this.tree = element("div", {class: "tree", tabindex: 0, role: "region", "aria-label": "Tree of common beginnings"});
    parent.append(this.words, this.strip, this.tree);
    new Cells(this.strip, {
      count: () => this.strip.children.length,
      at: (e) => [...this.strip.children].indexOf(e.target.closest(".strip > *")),
      box: (i) => this.strip.children[i].getBoundingClientRect(),
      tell: (i) => [element("strong", {}, this.heading(i)), element("table", {}, ...this.ways(i).map(([text, n]) =>
        element("tr", {}, element("td", {}, spelled(text)), element("td", {}, String(n)))))],
      words: (i) => `${this.heading(i)}: ${this.ways(i).map(([text, n]) => `${text} ${n}`).join(", ")}`,
    });
  }

  heading(k) { return `Token ${k + 1}: ${this.at[k][0]?.length ?? 1} of ${this.texts.length} on the same way`; }

  // The tokens at position k, most frequent first.
  ways(k) {
    const counts = new Map();
    for (const t of this.texts) if (k < t.length) counts.set(t[k], (counts.get(t[k]) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8);
  }

  // texts: the tokens of each answer; numbers and seeds: which they are, and their noise seeds. common is how many tokens
  // all begin with, where they part.
  update(texts, numbers, seeds) {
    const tree = prefixTree(texts);
    Object.assign(this, {texts, numbers});
    this.at = agreement(tree);
    this.common = tree.children.length ? tree.to : 0;
    this.words.textContent = inWords(tree, this.at);
    this.strip.replaceChildren(...this.at.slice(0, MOST_BARS).map((groups) => {
      const bar = element("span", {class: groups[0]?.length === texts.length ? "all" : ""}, element("span"));
      bar.firstChild.style.blockSize = `${(100 * (groups[0]?.length ?? 0)) / texts.length}%`;
      return bar;
    }));
    this.strip.hidden = !this.at.length;
    renew(this.tree, element("ul", {}, this.branch(tree, seeds)));
  }

  branch(node, seeds) {
    const text = this.texts[node.members[0]]?.slice(node.from, node.to).join("").replaceAll("\n", "↵") ?? "";
    const leaf = !node.children.length, most = leaf ? 70 : 400;
    const ends = node.members.filter((i) => leaf || this.texts[i].length === node.to);
    return element("li", {}, element("span", {dir: "auto"}, shorten(text, most)),
      node.members.length > 1 ? element("b", {title: `${node.members.length} seeds`}, ` ×${node.members.length}`) : "",
      ...ends.map((i) => button(`seed ${seeds[i]}`, {}, () => this.open(this.numbers[i]))),
      leaf ? "" : element("ul", {}, ...node.children.map((c) => this.branch(c, seeds))));
  }
}
