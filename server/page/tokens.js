// The tokens of a column: spans of its text, each with its probability and what else might have been there.

import {byId, element, percent} from "./text.js";

export class TokenText {
  // node holds the spans; label says whose text it is.
  constructor(node, label) {
    this.node = node;
    this.label = label;
    node.addEventListener("pointerover", (e) => this.show(this.spans.indexOf(e.target.closest(".token"))));
    node.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") this.show(-1); });
    document.addEventListener("pointerdown", (e) => { if (this.current >= 0 && !node.contains(e.target)) this.show(-1); });
    node.addEventListener("keydown", (e) => this.key(e));
    node.addEventListener("blur", () => this.show(-1));
    this.clear("");
  }

  clear(prompt) {
    this.characters = []; // code points, which offsets count
    this.tokens = [];
    this.spans = [];
    this.current = -1;
    this.node.replaceChildren(element("span", {class: "given"}, prompt));
  }

  // Takes a piece of a streamed choice.
  add(choice) {
    const {tokens = [], token_logprobs = [], top_logprobs = [], text_offset = []} = choice.logprobs ?? {};
    const first = Math.max(0, this.spans.length - 1);
    this.characters.push(...choice.text);
    tokens.forEach((text, i) => {
      this.tokens.push({text, logprob: token_logprobs[i], top: top_logprobs[i] ?? {}, offset: text_offset[i]});
      this.spans.push(element("span", {class: "token"}, "", element("span", {class: "ink"})));
      this.node.append(this.spans.at(-1));
    });
    for (let i = first; i < this.spans.length; i++) this.write(i);
  }

  // The space in front is no part of the word and is not marked with it.
  write(i) {
    const text = this.characters.slice(this.tokens[i].offset, this.tokens[i + 1]?.offset).join("");
    const word = text.trimStart(), [space, ink] = this.spans[i].childNodes;
    space.data = text.slice(0, text.length - word.length);
    ink.textContent = word;
  }

  get text() { return this.characters.join(""); }

  // Words with the tokens they are made of.
  words() {
    const starts = this.tokens.map((t) => t.offset);
    const words = [];
    let open = null, token = 0;
    this.characters.forEach((c, at) => {
      while (token + 1 < starts.length && starts[token + 1] <= at) token++;
      if (/\s/.test(c)) { open = null; return; }
      if (!open) words.push(open = {text: "", tokens: new Set()});
      open.text += c;
      open.tokens.add(token);
    });
    return words;
  }

  // shares: for each word, how many of the other columns lack it, 0 to 1.
  mark(words, shares) {
    const marks = new Float32Array(this.spans.length);
    words.forEach((w, i) => w.tokens.forEach((t) => { marks[t] = Math.max(marks[t], shares[i]); }));
    this.spans.forEach((span, i) => {
      span.classList.remove("d1", "d2", "d3");
      if (marks[i] > 0) span.classList.add("d" + Math.ceil(3 * marks[i]));
    });
  }

  key(e) {
    const steps = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity};
    if (e.key === "Escape" && this.current >= 0) {
      e.stopPropagation();
      this.show(-1);
    }
    if (!(e.key in steps) || !this.spans.length) return;
    e.preventDefault();
    this.show(Math.min(this.spans.length - 1, Math.max(0, this.current + steps[e.key])));
    const t = this.tokens[this.current];
    const others = Object.entries(t.top).filter(([text]) => text !== t.text).map(([text, l]) => `${text} ${percent(l)}`);
    byId("spoken").textContent = `${this.label}, token ${t.text}, ${percent(t.logprob)}; otherwise ${others.join(", ")}`;
  }

  // The card of token i, -1 for none.
  show(i) {
    const card = byId("card");
    this.spans[this.current]?.classList.remove("current");
    this.current = i;
    card.hidden = i < 0;
    if (i < 0) return;
    const t = this.tokens[i], span = this.spans[i];
    span.classList.add("current");
    const rows = Object.entries(t.top).sort((a, b) => b[1] - a[1]).map(([text, logprob]) => {
      const bar = element("span", {class: "bar"});
      bar.style.width = 100 * Math.exp(logprob) + "%";
      return element("tr", text === t.text ? {class: "chosen"} : {}, element("td", {}, JSON.stringify(text).slice(1, -1)),
        element("td", {}, bar), element("td", {}, percent(logprob)));
    });
    card.replaceChildren(element("strong", {}, JSON.stringify(t.text)), ` ${percent(t.logprob)}, token ${i + 1}`,
      element("table", {}, ...rows));
    const at = span.getBoundingClientRect(), width = document.documentElement.clientWidth;
    card.style.left = Math.max(8, Math.min(at.left, width - card.offsetWidth - 8)) + scrollX + "px";
    const above = at.bottom + card.offsetHeight + 8 > innerHeight && at.top > card.offsetHeight + 8;
    card.style.top = (above ? at.top - card.offsetHeight - 6 : at.bottom + 6) + scrollY + "px";
  }
}
