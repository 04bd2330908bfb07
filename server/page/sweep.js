// What more and less noise does: a row for each noise scale, a column for each seed.

import {button, element, shorten} from "./text.js";
import {Answer, ask} from "./answers.js";
import {distances} from "./diversity.js";

const SCALES = [0, 0.5, 1, 2, 4];
const MOST_SWEPT = 8;

const keyOf = (requests) => JSON.stringify(requests.map((r) => ({...r, noise_scale: 0})));

export class SweepPanel {
  // does: requests() of the columns, places() as ask() wants them; take(scale, i) shows that answer in the columns.
  constructor(parent, does) {
    this.does = does;
    this.run = button("Sweep", {id: "sweep"}, () => this.start());
    this.stop = button("Stop", {hidden: ""}, () => this.running.abort());
    this.out = element("div", {class: "sweep", tabindex: 0, role: "region", "aria-label": "Answers by noise scale and seed"});
    parent.append(element("div", {class: "bar-of"}, this.run, this.stop, element("p", {class: "dim"},
      `The same request with noise scale ${SCALES.join(", ")}, for up to ${MOST_SWEPT} of the seeds. ` +
      "Press an answer to take it over.")), this.out);
  }

  async start() {
    const requests = this.does.requests().slice(0, MOST_SWEPT);
    this.running?.abort();
    this.of = keyOf(requests);
    this.rows = SCALES.map((noise_scale) => requests.map((r) => new Answer({...r, noise_scale}, () => this.grown())));
    const mine = this.running = new AbortController();
    this.stop.hidden = false;
    this.frame(requests.map((r) => r.noise_seed));
    await ask(this.rows.flat(), this.does.places(), mine.signal);
    this.stop.hidden = mine === this.running;
    this.draw();
  }

  frame(seeds) {
    this.cells = this.rows.map((row, s) => row.map((_, i) => button("", {dir: "auto"}, () => this.does.take(SCALES[s], i))));
    this.figures = SCALES.map(() => element("span", {class: "dim"}));
    const names = ["Scale", ...seeds.map((s) => `Seed ${s}`)].map((name) => element("th", {scope: "col"}, name));
    const rows = SCALES.map((scale, s) => element("tr", {},
      element("th", {scope: "row"}, String(scale), element("br"), this.figures[s]),
      ...this.cells[s].map((c) => element("td", {}, c))));
    this.out.replaceChildren(element("table", {}, element("caption", {class: "unseen"}, "Answers by noise scale and seed"),
      element("thead", {}, element("tr", {}, ...names)), element("tbody", {}, ...rows)));
  }

  // Of other requests there is nothing to show any more.
  update() {
    if (this.of && this.of !== keyOf(this.does.requests().slice(0, MOST_SWEPT))) this.out.replaceChildren();
  }

  grown() { this.timer ??= setTimeout(() => this.draw(), 100); }

  draw() {
    clearTimeout(this.timer);
    this.timer = null;
    this.rows.forEach((row, s) => {
      row.forEach((a, i) => {
        const twin = row.slice(0, i).findIndex((b) => b.done && a.done && b.text === a.text);
        this.cells[s][i].textContent = twin >= 0 ? `= seed ${row[twin].request.noise_seed}`
          : shorten(a.text.trim(), 160) || a.note;
      });
      const {mean} = distances(row.map((a) => a.tokens.map((t) => t.text)));
      this.figures[s].textContent = mean.length ? `apart ${mean.at(-1).toFixed(2)}` : "";
    });
  }
}
