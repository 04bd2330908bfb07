// The heat map of the learned sigma, a row a layer and a column a head.

import {element, shade} from "./text.js";

const MOST_WITH_FIGURES = 12;

function map(rows, most) {
  const heads = rows[0].length, figures = heads <= MOST_WITH_FIGURES;
  const title = (h) => element("th", {scope: "col"}, figures || h % 4 === 0 ? String(h) : "");
  const cell = (sigma, layer, h) => {
    const shown = figures ? sigma.toFixed(3) : element("span", {class: "unseen"}, sigma.toFixed(3));
    return element("td", {class: shade(sigma / most), title: `layer ${layer}, head ${h}: ${sigma}`}, shown);
  };
  return element("table", {},
    element("caption", {class: "unseen"}, "Sigma of every layer and head"),
    element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "layer"), ...rows[0].map((_, h) => title(h)))),
    element("tbody", {}, ...rows.map((row, layer) =>
      element("tr", {}, element("th", {scope: "row"}, String(layer)), ...row.map((s, h) => cell(s, layer, h))))));
}

// Where it acts: on the queries, and with them the scores, or on the rows that every layer reads.
const place = site => site === "residual" ? "to what each layer reads" : "to the attention scores";

export function drawNoise(parent, noise) {
  const say = (text) => parent.replaceChildren(element("p", {class: "dim"}, text));
  if (noise.scope === "none") return say("This model has no noise: every noise seed gives the same.");
  if (!noise.sigma) return say("This model's noise is computed from every token; there is no figure for a head.");
  const most = Math.max(...noise.sigma.flat()) || 1;
  const box = element("div", {class: "map", tabindex: 0, role: "region", "aria-label": "Sigma by layer and head"},
    map(noise.sigma, most));
  parent.replaceChildren(box, element("p", {class: "dim"},
    `σ, sigma: the deviation of the noise added ${place(noise.site)}, ${noise.scope === "head" ? "by layer and head" : "by layer"}; ` +
    `at most ${most.toFixed(3)}. It acts multiplied by the noise scale.`));
}
