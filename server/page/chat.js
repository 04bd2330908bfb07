// A conversation: every turn is answered by all columns, and goes on from the answer that the reader replies to.

import {byId, button, element, shorten} from "./text.js";

export class Chat {
  // changed(): the state has another mode or another conversation.
  constructor(parent, changed) {
    Object.assign(this, {parent, changed});
    this.modes = ["Text", "Chat"].map((label, i) => button(label, {id: label.toLowerCase()}, () => this.switch(i === 1)));
    this.system = element("input", {id: "system", dir: "auto", placeholder: "none"});
    this.system.addEventListener("input", () => { this.state.chat.system = this.system.value; changed(); });
    this.turns = element("ol", {class: "turns"});
    this.talk = element("div", {class: "talk"}, element("label", {for: "system"}, "System message"), this.system, this.turns);
    parent.append(element("div", {class: "modes", role: "group", "aria-label": "What is asked for"}, ...this.modes), this.talk);
  }

  switch(chat) {
    if (chat === !!this.state.chat) return;
    this.state.chat = chat ? {system: "", turns: []} : null;
    this.state.asked = false;
    this.changed();
  }

  // The answer becomes part of the conversation, and the next message is written.
  reply(answer) {
    const {state} = this;
    state.chat.turns.push([state.prompt, answer.text, answer.request.noise_seed]);
    Object.assign(state, {prompt: "", asked: false});
    this.changed();
    byId("prompt").focus();
  }

  sync(state) {
    this.state = state;
    const {chat} = state;
    this.modes.forEach((b, i) => b.setAttribute("aria-pressed", (i === 1) === !!chat));
    this.talk.hidden = !chat;
    document.querySelector("label[for=prompt]").textContent = chat ? "Message" : "Prompt";
    if (!chat) return;
    if (this.system !== document.activeElement) this.system.value = chat.system ?? "";
    const said = JSON.stringify(chat.turns);
    if (said === this.said) return;
    this.said = said;
    this.turns.replaceChildren(...chat.turns.flatMap(([message, answer, seed]) => [
      element("li", {class: "message", dir: "auto"}, shorten(message, 2000)),
      element("li", {dir: "auto"}, shorten(answer, 2000), element("small", {class: "dim"}, ` seed ${seed}`))]));
  }
}
