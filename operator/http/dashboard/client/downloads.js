import { html, useState } from './preact.js';
import { ApiError, download } from './api.js';
import { Choice } from './components.js';
import { browser } from './storage.js';

const KEY = 'meterfeed-csv';
const FORMS = [
  ['separator=comma', '1234.5, comma between'],
  ['separator=comma&bom=true', '1234.5, comma between, byte order mark'],
  ['separator=semicolon', '1234.5, semicolon between'],
  ['separator=semicolon&decimal=comma', '1234,5, semicolon between'],
  ['separator=semicolon&decimal=comma&bom=true', '1234,5, semicolon between, byte order mark'],
  ['separator=tab', '1234.5, tab between'],
  ['separator=tab&decimal=comma', '1234,5, tab between'],
];

/** The chosen format of CSV, as parameters of the API. */
function chosenForm() {
  const [[plain = ''] = []] = FORMS;
  const chosen = browser.get(KEY);
  return FORMS.some(([form]) => form === chosen) && chosen !== null ? chosen : plain;
}

/**
 * Buttons that download files, and a choice of the CSV format, which this browser remembers. The
 * operator names the files.
 * @param {{ files: { text: string, address: string, csv?: boolean }[] }} properties each is CSV
 *   unless `csv` is false
 */
export function Downloads({ files }) {
  const [form, setForm] = useState(chosenForm());
  const choose = (/** @type {string} */ next) => {
    browser.set(KEY, next);
    setForm(next);
  };
  return html`
    <div class="downloads" onFocusIn=${() => setForm(chosenForm())}>
      ${files.map((file) => html`<${DownloadButton} ...${file} />`)}
      <${Choice} label="CSV format" value=${form} options=${FORMS} onChoose=${choose} />
    </div>
  `;
}

/**
 * A button that downloads one file.
 * @param {{ text: string, address: string, csv?: boolean, incomplete?: string }} properties as of
 *   {@link Downloads}; `incomplete` is shown when the operator does not have all of it (409)
 */
export function DownloadButton({ text, address, csv = true, incomplete }) {
  const [state, setState] = useState('');
  const run = async () => {
    setState('Downloading…');
    try {
      const asCsv = `${address}${address.includes('?') ? '&' : '?'}format=csv&${chosenForm()}`;
      await download(csv ? asCsv : address);
      setState('');
    } catch (error) {
      const isIncomplete = error instanceof ApiError && error.status === 409;
      const message = error instanceof Error ? error.message : String(error);
      setState(isIncomplete ? (incomplete ?? message) : message);
    }
  };
  return html`<span><button class="download" onClick=${run}>${text}</button> <span role="status">${state}</span></span>`;
}
