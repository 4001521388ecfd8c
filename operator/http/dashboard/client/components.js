import { html, useLayoutEffect, useRef, useState } from './preact.js';
import { download } from './api.js';

/** @typedef {import('preact').ComponentChildren} Children */
/** @typedef {'good' | 'warn' | 'bad' | 'plain'} Tone */

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

/** @param {{ title?: string, children?: Children }} properties */
export function Card({ title, children }) {
  return html`<section class="card">${title && html`<h2>${title}</h2>`} ${children}</section>`;
}

/**
 * A table that scrolls inside its own frame. A column is text unless it says `number`.
 * @template Row
 * @param {{
 *   caption: string,
 *   columns: { name: string, number?: boolean, cell: (row: Row) => Children }[],
 *   rows: Row[],
 *   empty: Children,
 * }} properties
 */
export function Table({ caption, columns, rows, empty }) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const [first, ...others] = columns;
  const kind = (/** @type {{ number?: boolean }} */ { number }) => (number ? 'number' : 'text');
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption>${caption}</caption>
        <thead>
          <tr>${columns.map((column) => html`<th scope="col" class=${kind(column)}>${column.name}</th>`)}</tr>
        </thead>
        <tbody>
          ${rows.map(
            (row) => html`
              <tr>
                <th scope="row">${first?.cell(row)}</th>
                ${others.map((column) => html`<td class=${kind(column)}>${column.cell(row)}</td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

/**
 * What is shown instead of data that is not there: still coming, refused, or failed with what to do.
 * Old data stays in sight under the message.
 * @param {{ state: { loading: boolean, error: import('./api.js').ApiError | undefined, reload: () => void } }} properties
 */
export function ErrorNotice({ state }) {
  if (state.loading) return html`<p class="empty" role="status">Loading…</p>`;
  if (state.error === undefined) return null;
  return html`
    <div class="notice bad" role="alert">
      <p>${state.error.message}</p>
      <button onClick=${state.reload}>Try again</button>
    </div>
  `;
}

/** @param {{ title: string, children?: Children, tone?: 'warn' | 'bad' }} properties */
export function Notice({ title, children, tone = 'warn' }) {
  return html`<div class=${`notice ${tone}`}><strong>${title}</strong>${children}</div>`;
}

/**
 * The head of a page. Screen readers and the keyboard start here after following a link.
 * @param {{ title: string, children?: Children }} properties
 */
export function PageHead({ title, children }) {
  const heading = useRef(/** @type {HTMLHeadingElement | null} */ (null));
  useLayoutEffect(() => {
    document.title = `${title} – meterfeed`;
    if (document.activeElement !== document.body) heading.current?.focus({ preventScroll: true });
  }, [title]);
  return html`
    <div class="page-head">
      <h1 tabindex="-1" ref=${heading}>${title}</h1>
      <div class="actions">${children}</div>
    </div>
  `;
}

/** @param {{ address: string, name: string, children?: Children }} properties */
export function DownloadButton({ address, name, children }) {
  const [state, setState] = useState('');
  const run = async () => {
    setState('Downloading…');
    try {
      await download(address, name);
      setState('');
    } catch (error) {
      setState(error instanceof Error ? error.message : String(error));
    }
  };
  return html`
    <button class="download" onClick=${run}>${children}</button>
    <span role="status">${state}</span>
  `;
}

/**
 * Asks before something is changed for good.
 * @param {{
 *   label: string, question: string, explanation: string, tone?: 'primary' | 'danger', disabled?: boolean,
 *   action: () => Promise<string>, onDone: () => void,
 * }} properties
 */
export function ConfirmButton({
  label,
  question,
  explanation,
  tone = 'primary',
  disabled = false,
  action,
  onDone,
}) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [result, setResult] = useState('');
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      setResult(await action());
      onDone();
    } catch (error) {
      setResult(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
    dialog.current?.close();
  };
  return html`
    <button class=${tone} disabled=${disabled} onClick=${() => dialog.current?.showModal()}>${label}</button>
    <span role="status">${result}</span>
    <dialog ref=${dialog} aria-label=${question}>
      <h2>${question}</h2>
      <p>${explanation}</p>
      <div class="buttons">
        <button onClick=${() => dialog.current?.close()}>Leave it</button>
        <button class=${tone} disabled=${busy} onClick=${run}>${label}</button>
      </div>
    </dialog>
  `;
}

/** Rows as bars, the longest first. @param {{ rows: { name: string, value: number, text: string }[], empty: string }} properties */
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
