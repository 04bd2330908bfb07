// The shelf: past draws and kept seeds, in this browser's local storage and nowhere else.

import {button, count, element, renew, shorten} from "./text.js";

const PLACE = "noised", MOST_DRAWS = 40;

function read() {
  try {
    return {draws: [], kept: [], names: {}, ...JSON.parse(localStorage.getItem(PLACE) ?? "{}")};
  } catch {
    return {draws: [], kept: [], names: {}};
  }
}

// Where there is no more room the oldest draws stay outside; what was kept comes first. False: nothing can be stored.
function write({draws, ...rest}) {
  for (let most = draws.length; most >= 0; most--)
    try {
      localStorage.setItem(PLACE, JSON.stringify({...rest, draws: draws.slice(0, most)}));
      return true;
    } catch {} // no room, or no storage
  return false;
}

const time = (when) => new Date(when).toLocaleString([], {dateStyle: "short", timeStyle: "short"});

export class Shelf {
  // does: take(seed) adds it to the columns, compare(seeds) takes them for the columns.
  constructor(details, does) {
    Object.assign(this, {details, does, shelf: read()});
    this.title = element("summary", {});
    this.kept = element("ul", {class: "kept"});
    this.draws = element("ol", {class: "draws"});
    this.compare = button("Compare the kept seeds", {id: "compare"},
      () => does.compare([...new Set(this.shelf.kept.map((k) => k.seed))]));
    this.where = element("p", {class: "dim"});
    details.append(this.title, this.kept, this.compare, this.draws, this.where,
      button("Forget the draws", {}, () => this.change((s) => { s.draws = []; })));
    addEventListener("storage", () => { this.shelf = read(); this.draw(); });
    this.draw();
  }

  // Another tab may have written meanwhile.
  change(edit) {
    const shelf = this.stored === false ? this.shelf : read();
    edit(shelf);
    this.stored = write(shelf);
    this.shelf = shelf;
    this.draw();
  }

  has(link) { return this.shelf.kept.some((k) => k.link === link); }

  // item: {link, seed, text, fingerprint}; once more, and it is kept no longer.
  keep(item) {
    this.change((s) => {
      const others = s.kept.filter((k) => k.link !== item.link);
      s.kept = others.length < s.kept.length ? others : [...others, {...item, name: "", when: Date.now()}];
    });
  }

  // The reader's name for a component of a model's sequences, or "".
  called(model, component) { return this.shelf.names[`${model} ${component}`] ?? ""; }
  call(model, component, name) { this.change((s) => { s.names[`${model} ${component}`] = name; }); }

  // The newest first; who goes back to one draws nothing new.
  drew(link, words) {
    this.change((s) => {
      if (!s.draws.some((d) => d.link === link)) s.draws = [{link, words, when: Date.now()}, ...s.draws].slice(0, MOST_DRAWS);
    });
  }

  draw() {
    const {draws, kept} = this.shelf;
    this.details.hidden = !draws.length && !kept.length;
    this.title.textContent = (kept.length ? `${count(kept.length, "kept seed")}, ` : "") + count(draws.length, "past draw");
    this.compare.hidden = kept.length < 2;
    this.where.textContent = this.stored === false ? "This browser stores nothing: the shelf lasts until the page is closed."
      : "Kept in this browser's local storage and nowhere else; its Back button goes through the draws, too.";
    renew(this.kept, ...kept.map((k) => this.keptItem(k)));
    renew(this.draws, ...draws.map((d) => element("li", {},
      element("a", {href: d.link, ...(d.link === location.hash && {"aria-current": "page"})}, d.words),
      element("span", {class: "dim"}, ` ${time(d.when)}`))));
  }

  keptItem(k) {
    const name = element("input", {"aria-label": `Name of seed ${k.seed}`, placeholder: "a name", value: k.name});
    name.addEventListener("change", () => {
      name.defaultValue = name.value;
      this.change((s) => {
        const same = s.kept.find((other) => other.link === k.link);
        if (same) same.name = name.value;
      });
    });
    return element("li", {}, name, button(`Seed ${k.seed} here`, {title: "Ask it this prompt"}, () => this.does.take(k.seed)),
      element("a", {href: k.link, dir: "auto", title: `${k.text}\n${k.fingerprint}`}, shorten(k.text.trim(), 60) || "its draw"),
      button("Forget", {"aria-label": `Forget seed ${k.seed}`}, () => { this.keep(k); this.title.focus(); }));
  }
}
