// The map of seeds: a thumbnail of every answer, like beside like.

import {button, element, shorten, sum} from "./text.js";
import {paint} from "./columns.js";

const ORDERS = {drawn: "as drawn", alike: "like beside like", probable: "most probable first"};
const MOST_SHOWN = 110;

export class SeedMap {
  // open(i): the reader presses thumbnail i.
  constructor(parent, open, reordered) {
    Object.assign(this, {parent, thumbs: []});
    this.order = element("select", {id: "order"},
      ...Object.entries(ORDERS).map(([value, label]) => element("option", {value}, label)));
    this.order.addEventListener("change", reordered);
    this.about = element("p", {class: "dim"});
    this.grid = element("div", {class: "thumbs"});
    const label = element("label", {for: "order"}, "Order");
    parent.append(element("div", {class: "bar-of"}, label, this.order, this.about), this.grid);
    this.open = open;
  }

  // A thumbnail each; picture as in Column.
  frame(answers, picture) {
    this.picture = picture;
    const [height, width] = picture ?? [];
    this.thumbs = answers.map((_, i) => button("", {class: "thumb"}, () => this.open(i)));
    for (const thumb of this.thumbs)
      thumb.append(element("span", {class: "of"}, element("b"), element("i")),
        picture ? element("canvas", {width, height}) : element("span", {class: "text-of", dir: "auto"}));
    this.grid.replaceChildren(...this.thumbs);
  }

  // common: how many tokens all begin with; clusters: as cluster() makes them, or null before there are any; opened: the
  // numbers of those that have a column.
  update(answers, picture, common, clusters, opened) {
    if (this.thumbs.length !== answers.length || this.picture !== picture) this.frame(answers, picture);
    const mean = (a) => sum(a.logprobs) / a.logprobs.length || -Infinity;
    const byText = new Map();
    answers.forEach((a) => byText.set(a.text, (byText.get(a.text) ?? 0) + 1));
    answers.forEach((a, i) => {
      const thumb = this.thumbs[i], [{firstChild: seed, lastChild: name}, what] = thumb.children, copies = byText.get(a.text);
      const from = a.tokens[Math.min(common, a.tokens.length - 1)]?.offset ?? 0;
      const shown = shorten(a.characters.slice(from).join("").trim(), MOST_SHOWN);
      if (what.width) paint(what, a.tokens);
      else what.textContent = shown ? (from ? "… " : "") + shown : a.note;
      seed.textContent = a.request.noise_seed;
      name.textContent = (clusters?.names[i] ?? "") + (a.done && copies > 1 ? ` ×${copies}` : "");
      thumb.className = `thumb g${clusters?.names[i] ? (clusters.names[i].charCodeAt(0) - 65) % 6 : ""}`;
      thumb.classList.toggle("busy", a.busy);
      thumb.classList.toggle("failed", a.kind === "failed");
      thumb.setAttribute("aria-pressed", opened.includes(i));
    });
    const order = this.order.value === "alike" && clusters ? clusters.order : answers.map((_, i) => i);
    if (this.order.value === "probable") order.sort((i, j) => mean(answers[j]) - mean(answers[i]));
    order.forEach((i, at) => { this.thumbs[i].style.order = at; });
    const groups = new Set(clusters?.names.filter(Boolean)).size;
    this.about.textContent = `${byText.size} different answers of ${answers.length} seeds` +
      (groups ? `; letters name ${groups} groups of like ones.` : ".") + " Press one to open it.";
  }
}
