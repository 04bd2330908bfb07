// How the columns differ: words for the eye, figures over their tokens, and a curve as they grow.

import {element} from "./text.js";

// Beyond this, aligning two texts would take longer than a frame: what follows their common beginning counts as other.
const MOST_ALIGNED = 1000;

// Flags, for each word of a and of b, that a longest common subsequence leaves it out.
export function unmatched(a, b) {
  const flags = [new Uint8Array(a.length), new Uint8Array(b.length)];
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  const n = a.length - from, m = b.length - from, width = m + 1;
  if (Math.max(n, m) > MOST_ALIGNED) return flags.map((f) => f.fill(1, from));
  const longest = new Uint16Array((n + 1) * width);
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      longest[i * width + j] = a[from + i] === b[from + j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[from + i] === b[from + j]) i++, j++;
    else if (j === m || (i < n && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) flags[0][from + i++] = 1;
    else flags[1][from + j++] = 1;
  }
  return flags;
}

// For each text (a list of words) how many of the others lack each of its words, 0 to 1.
export function differences(texts) {
  const sums = texts.map((t) => new Float32Array(t.length));
  for (let i = 0; i < texts.length; i++)
    for (let j = 0; j < i; j++) {
      const [a, b] = unmatched(texts[i], texts[j]);
      a.forEach((f, k) => { sums[i][k] += f; });
      b.forEach((f, k) => { sums[j][k] += f; });
    }
  return sums.map((s) => s.map((x) => x / Math.max(1, texts.length - 1)));
}

// Different n-grams per n-gram over the first k tokens of every text, for k = 1, 2, ...; null where there is none.
export function distinct(texts, n) {
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
export function editDistance(a, b) {
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

// The mean over all pairs; a text that is shorter than k is there as a whole.
export function meanEditDistance(texts) {
  const sums = new Float64Array(longestOf(texts));
  let pairs = 0;
  for (let i = 0; i < texts.length; i++)
    for (let j = 0; j < i; j++, pairs++) {
      const curve = editDistance(texts[i], texts[j]);
      sums.forEach((_, k) => { sums[k] += curve[Math.min(k, curve.length - 1)] ?? 0; });
    }
  return pairs ? Array.from(sums, (s) => s / pairs) : [];
}

/* ---- the panel ---- */

const figures = [
  ["distinct-1", (t) => distinct(t, 1)],
  ["distinct-2", (t) => distinct(t, 2)],
  ["distinct-3", (t) => distinct(t, 3)],
  ["mean edit distance", meanEditDistance],
];

export class DiversityPanel {
  constructor(parent) {
    this.values = figures.map(() => element("dd", {}, "–"));
    const list = element("dl", {class: "figures"},
      ...figures.map(([name], i) => element("div", {}, element("dt", {}, name), this.values[i])));
    this.chart = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.chart.setAttribute("class", "chart");
    this.chart.setAttribute("viewBox", "0 0 100 100");
    this.chart.setAttribute("preserveAspectRatio", "none");
    this.chart.setAttribute("role", "img");
    this.chart.setAttribute("aria-label", "distinct-2 and mean edit distance, 0 to 1, as the columns grow");
    this.lines = ["axis", "distinct", "distance"].map((name) => {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", name);
      this.chart.append(path);
      return path;
    });
    this.lines[0].setAttribute("d", "M0 1H100M0 50H100M0 99H100");
    parent.append(list, this.chart, element("p", {class: "dim"}, element("span", {class: "key"}), "distinct-2",
      element("span", {class: "key distance"}), "mean edit distance; of tokens, 0 to 1, as the columns grow"));
    this.clear();
  }

  clear() { this.update([]); }

  // texts: the tokens of each column so far.
  update(texts) {
    const curves = figures.map(([, f]) => f(texts));
    curves.forEach((c, i) => { this.values[i].textContent = c.at(-1)?.toFixed(3) ?? "–"; });
    [curves[1], curves[3]].forEach((curve, i) => {
      const known = curve.map((y, k) => [k, y]).filter(([, y]) => y !== null);
      this.lines[i + 1].setAttribute("d", known.map(([k, y], first) =>
        `${first ? "L" : "M"}${((100 * k) / Math.max(1, curve.length - 1)).toFixed(2)} ${(99 - 98 * y).toFixed(2)}`).join(""));
    });
  }
}
