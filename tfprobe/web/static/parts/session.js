// Authenticate: a token is exchanged for a cookie, which no script can read.
import { ApiError, isFile, post } from "./data.js";
import { make } from "./elements.js";

const TOKEN = /^#token=(.+)$/;
const NOT_KNOWN = 401;

/** Exchange the token in the address, if there is one, and remove it from the address. */
export async function beginSession() {
  const token = TOKEN.exec(location.hash)?.[1];
  if (token === undefined || isFile) return;
  // Immediately: what stays in the address also stays in the browser's history.
  history.replaceState(null, "", "#/");
  await exchangeToken(token);
}

/** Whether an error means that the server did not authenticate the request. */
export function isUnknown(error) {
  return error instanceof ApiError && error.status === NOT_KNOWN;
}

/** A form that asks for the token, and calls `known` once it was accepted. */
export function tokenForm(sentence, known) {
  const field = make("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const message = make("p", { role: "alert", class: "trouble" }, sentence);
  async function send(event) {
    event.preventDefault();
    try {
      await exchangeToken(field.value.trim().replace(/^.*#token=/, ""));
      known();
    } catch (error) {
      message.textContent = error.message;
    }
  }
  return make(
    "form",
    { class: "session", onsubmit: send },
    make("h1", {}, "Token required"),
    message,
    make("label", { for: "token" }, "Token, or the address that contains it"),
    field,
    make("button", { type: "submit" }, "Open"),
  );
}

async function exchangeToken(token) {
  await post("session", { token });
}
