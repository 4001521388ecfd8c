import { html, useLayoutEffect, useRef } from './preact.js';

/** @typedef {import('preact').ComponentChildren} Children */
/**
 * @typedef {'good' | 'warn' | 'bad' | 'plain'} Tone `bad` is for what loses money, and nothing else
 */

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

/**
 * A text instead of an unknown figure, with the pattern of charts.
 * @param {{ children?: Children }} properties
 */
export function NotMeasured({ children }) {
  return html`<span class="muted unmeasured"><span class="swatch before"></span>${children}</span>`;
}

/** @param {{ title?: string, children?: Children }} properties */
export function Card({ title, children }) {
  return html`<section class="card">${title && html`<h2>${title}</h2>`} ${children}</section>`;
}

const SKELETON_LINES = 4;

/** A placeholder while data is loading. */
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
 * A placeholder while data is loading, or the error with a button to try again. Older data stays
 * visible below the error.
 * @param {{ state: { data: any, loading: boolean, error: import('./api.js').ApiError | undefined,
 *   reload: () => void } }} properties
 */
export function ErrorNotice({ state }) {
  if (state.loading) return html`<${Skeleton} />`;
  if (state.error === undefined) return null;
  return html`
    <div class="notice warn" role="alert">
      <p>${state.error.message}</p>
      ${state.data !== undefined && html`<p>The data below was read before this error.</p>`}
      <button onClick=${state.reload}>Try again</button>
    </div>
  `;
}

/** @param {{ title: string, children?: Children, tone?: 'warn' | 'bad' }} properties */
export function Notice({ title, children, tone = 'warn' }) {
  return html`<div class=${`notice ${tone}`}><strong>${title}</strong>${children}</div>`;
}

/** A link to the content. It moves the focus itself, because the fragment names the page. */
export function SkipLink() {
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    document.getElementById('content')?.focus();
  };
  return html`<a class="skip" href="#content" onClick=${skip}>Skip to the content</a>`;
}

/** The name of the site, in the title of each page. */
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

/**
 * The path to this page.
 * @param {{ steps: { text: string, href: string }[], here: string }} properties
 */
export function Trail({ steps, here }) {
  return html`
    <nav class="trail" aria-label="Path to this page">
      <ol>
        ${steps.map(({ text, href }) => html`<li><a href=${href}>${text}</a></li>`)}
        <li aria-current="page">${here}</li>
      </ol>
    </nav>
  `;
}

/**
 * Rows as bars, the longest first.
 * @param {{ rows: { name: Children, value: number, text: string }[], empty: string }} properties
 */
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

/**
 * A choice of one of several values.
 * @param {{ label: string, value: string, options: string[][], onChoose: (value: string) => void }}
 *   properties
 */
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

/**
 * The options. A chosen value that is not among them, such as one from a link, is added.
 * @param {string[][]} options
 * @param {string} chosen
 * @param {string} [name]
 */
export function withChosen(options, chosen, name = chosen) {
  return options.some(([value]) => value === chosen) ? options : [...options, [chosen, name]];
}
