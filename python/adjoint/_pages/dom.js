// Making and finding elements. Everything on a page is made here: the shell is empty.

/** An element: make("button", {class: "x", onclick: f}, "text", child). */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

/** Replace what an element holds. */
function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** Buttons of which one is pressed. `choices` are [value, text, title, usable]. */
function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, text, title, usable = true]) =>
    make(
      "button",
      {
        title,
        disabled: !usable,
        "data-value": value,
        "aria-pressed": String(value === chosen),
        onclick: () => {
          press(value);
          choose(value);
        },
      },
      text,
    ),
  );
  function press(value) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
  }
  const group = make("span", { class: "segments", role: "group", "aria-label": label }, ...buttons);
  group.press = press;
  return group;
}

/** Hand a file to the person in front of the page. */
function download(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = make("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the address after this function has returned.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
