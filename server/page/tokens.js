// The tokens of an answer: spans of its text, each with its probability and what else might have been there.

import {element, percent, spelled} from "./text.js";
import {Cells} from "./card.js";

// Of a longer prompt only the end stands above every answer.
const MOST_GIVEN = 400;

export class TokenText {
  // node holds the spans; label says whose text it is.
  constructor(node, label) {
    Object.assign(this, {node, label});
    new Cells(node, {
      count: () => this.spans.length,
      at: (e) => this.spans.indexOf(e.target.closest(".token")),
      box: (i) => this.spans[i].getBoundingClientRect(),
      point: (i) => {
        this.pointed?.classList.remove("current");
        this.pointed = this.spans[i];
        this.pointed?.classList.add("current");
      },
      tell: (i) => this.tell(i),
      words: (i) => this.words(i),
    });
  }

  // answer: what is shown from now on; given: what it goes on from.
  follow(answer, given) {
    Object.assign(this, {answer, given, spans: [], marks: []});
    const folded = given.length > MOST_GIVEN;
    this.node.replaceChildren(element("span", {class: "given", title: folded ? `The end of ${given.length} characters` : ""},
      folded ? "… " + given.slice(1 - MOST_GIVEN) : given));
    this.grow();
  }

  // Spans for what has come; the last one's text may have grown.
  grow() {
    const {tokens} = this.answer, first = Math.max(0, this.spans.length - 1);
    while (this.spans.length < tokens.length) {
      this.spans.push(element("span", {class: "token"}, "", element("span", {class: "ink"})));
      this.node.append(this.spans.at(-1));
    }
    for (let i = first; i < tokens.length; i++) this.write(i);
  }

  // The space in front is no part of the word and is not marked with it.
  write(i) {
    const {tokens, characters} = this.answer;
    const text = characters.slice(tokens[i].offset, tokens[i + 1]?.offset).join("");
    const word = text.trimStart(), [space, ink] = this.spans[i].childNodes;
    space.data = text.slice(0, text.length - word.length);
    ink.textContent = word;
  }

  // marks: {at, seeds} of the tokens behind which fewer seeds go on together.
  mark(marks) {
    for (const {at} of this.marks) this.spans[at]?.classList.remove("fork", "alone");
    this.marks = marks;
    for (const {at, seeds} of marks) this.spans[at]?.classList.add(seeds > 1 ? "fork" : "alone");
  }

  words(i) {
    const t = this.answer.tokens[i];
    const others = Object.entries(t.top).filter(([text]) => text !== t.text).map(([text, l]) => `${text} ${percent(l)}`);
    return `${this.label}, token ${t.text}, ${percent(t.logprob)}` + (others.length ? `; otherwise ${others.join(", ")}` : "");
  }

  tell(i) {
    const t = this.answer.tokens[i], mark = this.marks.find((m) => m.at === i);
    const rows = Object.entries(t.top).sort((a, b) => b[1] - a[1]).map(([text, logprob]) => {
      const bar = element("span", {class: "bar"});
      bar.style.width = 100 * Math.exp(logprob) + "%";
      return element("tr", text === t.text ? {class: "chosen"} : {},
        element("td", {}, spelled(text)), element("td", {}, bar), element("td", {}, percent(logprob)));
    });
    return [element("strong", {}, JSON.stringify(t.text)), ` ${percent(t.logprob)}, token ${i + 1}`,
      element("table", {}, ...rows),
      mark ? element("p", {}, mark.seeds > 1 ? `${mark.seeds} seeds go on together.` : "From here this seed is alone.") : ""];
  }
}
