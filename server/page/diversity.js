// How the answers differ: figures over their tokens, a curve as they grow, and who is like whom.

import {element} from "./text.js";
import {hint} from "./card.js";

// Steps that all pairs together may take, so that a drawing takes no longer than a fraction of a second.
const MOST_STEPS = 2e7;

// Different n-grams per n-gram over the first k tokens of every text, for k = 1, 2, ...; null where there is none.
function distinct(texts, n) {
  const seen = new Set(), curve = [];
  let total = 0;
  for (let k = 1; k <= longestOf(texts); k++) {
    for (const t of texts) {
      if (k < n || k > t.length) continue;
      seen.add(JSON.stringify(t.slice(k - n, k)));
      total++;
    }
    curve.push(total ? seen.size / total : null);
  }
  return curve;
}

const longestOf = (texts) => Math.max(0, ...texts.map((t) => t.length));

// Levenshtein's distance of the first k tokens of two texts, over the length of the longer of them, for k = 1, 2, ...:
// the diagonal of one table, and what its last row has beyond.
function editDistance(a, b) {
  const row = Uint16Array.from({length: b.length + 1}, (_, j) => j), curve = [];
  for (let i = 1; i <= a.length; i++) {
    let corner = row[0];
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const cost = Math.min(row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] === b[j - 1] ? 0 : 1));
      corner = row[j];
      row[j] = cost;
    }
    curve.push(row[Math.min(i, b.length)] / i);
  }
  for (let k = a.length + 1; k <= b.length; k++) curve.push(row[k] / k);
  return curve;
}

// The mean over all pairs (a text that is shorter than k is there as a whole), and the distance of each pair, over as
// many of the first tokens as there is time for.
export function distances(texts) {
  const pairs = (texts.length * (texts.length - 1)) / 2, most = Math.floor(Math.sqrt(MOST_STEPS / Math.max(1, pairs)));
  const short = texts.map((t) => t.slice(0, most)), sums = new Float64Array(longestOf(short));
  const matrix = texts.map(() => new Float32Array(texts.length));
  for (let i = 0; i < texts.length; i++)
    for (let j = 0; j < i; j++) {
      const curve = editDistance(short[i], short[j]);
      sums.forEach((_, k) => { sums[k] += curve[Math.min(k, curve.length - 1)] ?? 0; });
      matrix[i][j] = matrix[j][i] = curve.at(-1) ?? 0;
    }
  return {mean: pairs ? Array.from(sums, (s) => s / pairs) : [], matrix};
}

// Below this mean distance two groups count as alike.
const ALIKE = 0.6;

// Joins, again and again, the two groups of least mean distance: the order of the last group puts like beside like, and
// the groups that were joined while they were alike, of two or more, are named A, B, ...
export function cluster(matrix) {
  let groups = matrix.map((_, i) => [i]), named = null;
  const apart = (a, b) => a.reduce((s, i) => s + b.reduce((t, j) => t + matrix[i][j], 0), 0) / (a.length * b.length);
  const between = matrix.map((row) => Array.from(row));
  while (groups.length > 1) {
    let [x, y, least] = [0, 1, Infinity];
    for (let i = 0; i < groups.length; i++)
      for (let j = 0; j < i; j++) if (between[i][j] < least) [x, y, least] = [j, i, between[i][j]];
    if (least > ALIKE) named ??= groups;
    const joined = [...groups[x], ...groups[y]];
    groups = groups.map((g, i) => (i === x ? joined : g)).filter((_, i) => i !== y);
    between.splice(y, 1);
    between.forEach((row) => row.splice(y, 1));
    groups.forEach((g, i) => { between[x][i] = between[i][x] = apart(g, joined); });
  }
  const names = matrix.map(() => "");
  (named ?? groups).filter((g) => g.length > 1).sort((a, b) => b.length - a.length)
    .forEach((g, n) => g.forEach((i) => { names[i] = String.fromCharCode(65 + n); }));
  return {order: groups.flat(), names};
}

/* ---- the panel ---- */

const svg = (name, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
};

export class DiversityPanel {
  constructor(parent) {
    const names = ["distinct-1", "distinct-2", "distinct-3", "mean edit distance"];
    this.values = names.map(() => element("dd", {}, "–"));
    const list = element("dl", {class: "figures"}, ...names.map((name, i) => element("div", {},
      element("dt", {}, name, i === 1 ? hint("distinct") : i === 3 ? hint("distance") : ""), this.values[i])));
    this.short = element("span");
    this.chart = svg("svg", {class: "chart", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img",
      "aria-label": "distinct-2 and mean edit distance, 0 to 1, as the answers grow"});
    this.lines = ["axis", "distinct", "distance"].map((name) => this.chart.appendChild(svg("path", {class: name})));
    this.lines[0].setAttribute("d", "M0 1H100M0 50H100M0 99H100");
    parent.append(list, this.chart, element("p", {class: "dim"}, element("span", {class: "key"}), "distinct-2",
      element("span", {class: "key distance"}), "mean edit distance; of tokens, 0 to 1, as the answers grow", this.short));
  }

  // texts: the tokens of each answer so far; mean: of their distances.
  update(texts, mean) {
    const curves = [1, 2, 3].map((n) => distinct(texts, n)).concat([mean]);
    curves.forEach((c, i) => { this.values[i].textContent = c.at(-1)?.toFixed(3) ?? "–"; });
    const last = Math.max(1, curves[0].length - 1);
    this.short.textContent = mean.length && mean.length <= last ? `; the distance of the first ${mean.length} alone` : "";
    [curves[1], curves[3]].forEach((curve, i) => {
      const known = curve.map((y, k) => [k, y]).filter(([, y]) => y !== null);
      this.lines[i + 1].setAttribute("d", known.map(([k, y], first) =>
        `${first ? "L" : "M"}${((100 * k) / last).toFixed(2)} ${(99 - 98 * y).toFixed(2)}`).join(""));
    });
  }
}
