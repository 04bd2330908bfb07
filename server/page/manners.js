// Seed by example: which noise seeds, or components of the model's sequences, make a text the likeliest. Of components also
// what each writes, and the reader's names for them.

import {button, element, shorten} from "./text.js";
import {Answer, ask} from "./answers.js";
import {postJson} from "./stream.js";

export class MannersPanel {
  // does: requests() of the columns, places() as ask() wants them; called(component) is its name, call(component, name) gives
  // it one; take(one, text): {noise_seed} or {noise_component} goes on with the text, with no text answers the prompt.
  constructor(parent, does) {
    Object.assign(this, {does, rows: []});
    this.text = element("textarea", {id: "example", rows: 2, dir: "auto", spellcheck: "false"});
    this.all = button("A sample of each", {id: "samples"}, () => this.sample());
    this.any = button("Let the seeds draw", {id: "any"}, () => does.take({}, ""));
    this.said = element("p", {class: "dim", role: "status"});
    this.out = element("ul", {class: "kept"});
    parent.append(element("label", {for: "example"}, "A text"), this.text, element("div", {class: "bar-of"},
      button("Who writes like this?", {id: "like"}, () => this.like()), this.all, this.any), this.said, this.out);
  }

  // components: how many the model has; 0: its seeds are what differs.
  serve(components) {
    this.field = components ? "noise_component" : "noise_seed";
    this.all.hidden = this.any.hidden = !components;
    this.said.textContent = components ? `Every text is of one of ${components} components.`
      : "Asks how probable a text is under every seed of the columns.";
    if (components) this.list([...Array(components).keys()]);
  }

  list(values) {
    this.rows = values.map((value) => ({value, share: null, answer: null}));
    this.draw();
  }

  async like() {
    const [{noise_seed, noise_scale}] = this.does.requests(), {field} = this;
    if (field === "noise_seed") this.list([...new Set(this.does.requests().map((r) => r.noise_seed))]);
    if (this.rows.length < 2) return this.said.textContent = "There must be two seeds to tell apart.";
    this.said.textContent = "Asking …";
    try {
      const {likeliest: [{shares}]} = await postJson("v1/score", {continuations: [this.text.value], noise_scale, noise_seed,
        [field]: this.rows.map((r) => r.value)});
      this.rows.forEach((r) => { r.share = shares[this.rows.indexOf(r)]; });
      this.rows = [...this.rows].sort((a, b) => b.share - a.share);
      this.said.textContent = "The share of each: how likely it is that it wrote the text, if one of them did.";
    } catch (e) {
      this.said.textContent = e.message;
    }
    this.draw();
  }

  async sample() {
    const [request] = this.does.requests();
    for (const r of this.rows) r.answer = new Answer({...request, noise_component: r.value}, () => this.show(r));
    const errors = await ask(this.rows.map((r) => r.answer), this.does.places(), null);
    this.said.textContent = errors[0]?.message ?? "";
  }

  show(row) { row.text.textContent = row.answer ? shorten(row.answer.text.trim(), 200) || row.answer.note : ""; }

  draw() { this.out.replaceChildren(...this.rows.map((r) => this.row(r))); }

  row(r) {
    const {value, share} = r, {field, does} = this, what = field === "noise_seed" ? `seed ${value}` : `component ${value}`;
    const name = element("input", {"aria-label": `Name of ${what}`, placeholder: "a name", value: does.called(value)});
    name.addEventListener("change", () => does.call(value, name.value));
    r.text = element("span", {dir: "auto"});
    this.show(r);
    return element("li", {}, element("b", {}, what), ...(field === "noise_seed" ? [] : [name]),
      element("span", {}, share === null ? "" : `${(100 * share).toFixed(1)} %`),
      button("Write on", {"aria-label": `Write on with ${what}`}, () => does.take({[field]: value}, this.text.value)), r.text);
  }
}
