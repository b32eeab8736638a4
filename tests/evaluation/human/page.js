// Runs a form's script on a page of plain objects: visits of pressed keys one after the other, then the download.
"use strict";
const [, , path, visits] = process.argv;
const { root, script } = JSON.parse(require("fs").readFileSync(path, "utf-8"));
const memory = new Map();
let outcome = {};

function element(node, parent) {
  const self = { tagName: node.tag.toUpperCase(), parent, listeners: {}, textContent: node.text, checked: false };
  self.value = node.attrs.value;
  self.name = node.attrs.name;
  self.id = node.attrs.id;
  self.dataset = Object.fromEntries(
    Object.entries(node.attrs).filter(([name]) => name.startsWith("data-")).map(([name, value]) => [name.slice(5), value]));
  self.classList = { toggle() {} };
  self.children = node.children.map((child) => element(child, self));
  self.descendants = () => self.children.flatMap((child) => [child, ...child.descendants()]);
  self.querySelectorAll = (selector) => {
    const [, tag, name, value] = /^(\w+)(?:\[data-(\w+)="(.*)"\])?$/.exec(selector);
    return self.descendants().filter((each) => each.tagName === tag.toUpperCase() && (!name || each.dataset[name] === value));
  };
  self.querySelector = (selector) => self.querySelectorAll(selector)[0];
  self.closest = (tag) => (self.tagName === tag.toUpperCase() ? self : parent ? parent.closest(tag) : null);
  self.focus = () => { page.active = self; };
  self.scrollIntoView = () => {};
  self.addEventListener = (kind, listener) => { self.listeners[kind] = listener; };
  return self;
}

// One of a name is checked at a time, as radio buttons are.
function exclusive(page) {
  const inputs = page.querySelectorAll("input");
  for (const input of inputs) {
    let checked = false;
    Object.defineProperty(input, "checked", {
      get: () => checked,
      set: (value) => {
        if (value) inputs.filter((each) => each.name === input.name && each !== input).forEach((each) => { each.checked = false; });
        checked = value;
      },
    });
  }
}

let page;
for (const keys of JSON.parse(visits)) {
  page = element(root, null);
  exclusive(page);
  page.getElementById = (id) => page.descendants().find((each) => each.id === id);
  page.body = { append() {} };
  page.createElement = () => ({ remove() {}, click() { outcome.name = this.download; } });
  const localStorage = { getItem: (key) => memory.get(key) ?? null, setItem: (key, value) => memory.set(key, value) };
  const window = { addEventListener() {} };
  const address = { createObjectURL: (blob) => { outcome.csv = blob.parts.join(""); return "blob:"; }, revokeObjectURL() {} };
  class Blob { constructor(parts) { this.parts = parts; } }
  new Function("document", "localStorage", "window", "URL", "Blob", "setTimeout", script)(
    page, localStorage, window, address, Blob, () => {});
  for (const key of keys) page.listeners.keydown({ key, target: page.active || page, preventDefault() {} });
}
page.getElementById("download").listeners.click();
outcome.progress = page.getElementById("progress").textContent;
outcome.stored = [...memory.keys()];
console.log(JSON.stringify(outcome));
