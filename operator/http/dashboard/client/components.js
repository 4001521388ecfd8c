import { html, useLayoutEffect, useRef } from './preact.js';

/** @typedef {import('preact').ComponentChildren} Children */
/** @typedef {'good' | 'warn' | 'bad' | 'plain'} Tone `bad` is for what loses money, and nothing else */

/**
 * @param {{ label: string, value: Children, note?: Children, tone?: Tone }} properties
 */
export function Tile({ label, value, note, tone = 'plain' }) {
  return html`
    <dl class=${`tile ${tone}`}>
      <dt>${label}</dt>
      <dd>${value}</dd>
      ${note && html`<dd class="note">${note}</dd>`}
    </dl>
  `;
}

/** @param {{ tone: Tone, children?: Children }} properties */
export function Badge({ tone, children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}

/** Instead of a figure that nobody knows, with the pattern that charts have there. @param {{ children?: Children }} properties */
export function NotMeasured({ children }) {
  return html`<span class="muted unmeasured"><span class="swatch before"></span>${children}</span>`;
}

/** @param {{ title?: string, children?: Children }} properties */
export function Card({ title, children }) {
  return html`<section class="card">${title && html`<h2>${title}</h2>`} ${children}</section>`;
}

const SKELETON_LINES = 4;

/** The place of what is still coming. */
export function Skeleton() {
  const lines = Array.from({ length: SKELETON_LINES });
  return html`
    <div class="skeleton" role="status">
      <span class="unseen">Loading…</span>
      ${lines.map(() => html`<span class="line" aria-hidden="true"></span>`)}
    </div>
  `;
}

/**
 * What is shown instead of data that is not there: still coming, refused, or failed with what to do.
 * Old data stays in sight under the message, which says so.
 * @param {{ state: { data: any, loading: boolean, error: import('./api.js').ApiError | undefined, reload: () => void } }} properties
 */
export function ErrorNotice({ state }) {
  if (state.loading) return html`<${Skeleton} />`;
  if (state.error === undefined) return null;
  return html`
    <div class="notice warn" role="alert">
      <p>${state.error.message}</p>
      ${state.data !== undefined && html`<p>What stands below was read before that.</p>`}
      <button onClick=${state.reload}>Try again</button>
    </div>
  `;
}

/** @param {{ title: string, children?: Children, tone?: 'warn' | 'bad' }} properties */
export function Notice({ title, children, tone = 'warn' }) {
  return html`<div class=${`notice ${tone}`}><strong>${title}</strong>${children}</div>`;
}

/** The fragment belongs to the pages, so the link moves the focus itself. */
export function SkipLink() {
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    document.getElementById('content')?.focus();
  };
  return html`<a class="skip" href="#content" onClick=${skip}>Skip to the content</a>`;
}

/** What the pages are called, each in the title of its window. */
export const site = { name: 'meterfeed' };

/**
 * The head of a page. Screen readers and the keyboard start here after following a link.
 * @param {{ title: string, children?: Children }} properties
 */
export function PageHead({ title, children }) {
  const heading = useRef(/** @type {HTMLHeadingElement | null} */ (null));
  useLayoutEffect(() => {
    document.title = `${title} – ${site.name}`;
    if (document.activeElement !== document.body) heading.current?.focus({ preventScroll: true });
  }, [title]);
  return html`
    <div class="page-head">
      <h1 tabindex="-1" ref=${heading}>${title}</h1>
      <div class="actions">${children}</div>
    </div>
  `;
}

/** Where the reader came through. @param {{ steps: { text: string, href: string }[], here: string }} properties */
export function Trail({ steps, here }) {
  return html`
    <nav class="trail" aria-label="The way here">
      <ol>
        ${steps.map(({ text, href }) => html`<li><a href=${href}>${text}</a></li>`)}
        <li aria-current="page">${here}</li>
      </ol>
    </nav>
  `;
}

/** Rows as bars, the longest first. @param {{ rows: { name: Children, value: number, text: string }[], empty: string }} properties */
export function Bars({ rows, empty }) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const longest = Math.max(...rows.map(({ value }) => value), Number.MIN_VALUE);
  return html`
    <ul class="bars">
      ${rows.map(
        ({ name, value, text }) => html`
          <li>
            <span class="name">${name}</span><span class="amount">${text}</span>
            <span class="track" aria-hidden="true"
              ><span class="fill" style=${{ width: `${(100 * value) / longest}%`, display: 'block' }}></span
            ></span>
          </li>
        `,
      )}
    </ul>
  `;
}

/** One of several. @param {{ label: string, value: string, options: string[][], onChoose: (value: string) => void }} properties */
export function Choice({ label, value, options, onChoose }) {
  return html`
    <label class="field">
      ${label}
      <select value=${value} onChange=${(/** @type {any} */ event) => onChoose(event.currentTarget.value)}>
        ${options.map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}
      </select>
    </label>
  `;
}

/** A link may name something that is not in the list. @param {string[][]} options @param {string} chosen @param {string} [name] */
export function withChosen(options, chosen, name = chosen) {
  return options.some(([value]) => value === chosen) ? options : [...options, [chosen, name]];
}
