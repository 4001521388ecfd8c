import { html, useState } from './preact.js';
import { download, url } from './api.js';
import { Choice } from './components.js';
import { browser } from './storage.js';

const KEY = 'meterfeed-csv';

/** How CSV is written unless the reader has chosen otherwise; as the parameters of the API. */
const PLAIN = { separator: 'comma', decimal: 'point', bom: 'false' };

const SEPARATORS = [
  ['comma', 'comma'],
  ['semicolon', 'semicolon'],
  ['tab', 'tab'],
];

/** @returns {typeof PLAIN} */
function chosenForm() {
  try {
    return { ...PLAIN, ...JSON.parse(browser.get(KEY) ?? '{}') };
  } catch {
    return PLAIN;
  }
}

/**
 * What can be saved of what stands above, and how CSV is to be written. The operator names the files.
 * @param {{ files: { text: string, address: string, csv?: boolean }[] }} properties each is CSV unless `csv` is false
 */
export function Downloads({ files }) {
  return html`
    <div class="downloads">
      ${files.map((file) => html`<${DownloadButton} ...${file} />`)}
      <${CsvForm} />
    </div>
  `;
}

/** @param {{ text: string, address: string, csv?: boolean }} properties */
function DownloadButton({ text, address, csv = true }) {
  const [state, setState] = useState('');
  const run = async () => {
    setState('Downloading…');
    try {
      const [path = '', query = ''] = address.split('?', 2);
      const asked = Object.fromEntries(new URLSearchParams(query));
      await download(csv ? url(path, { ...asked, format: 'csv', ...chosenForm() }) : address);
      setState('');
    } catch (error) {
      setState(error instanceof Error ? error.message : String(error));
    }
  };
  return html`
    <span><button class="download" onClick=${run}>${text}</button> <span role="status">${state}</span></span>
  `;
}

/** Remembered in this browser, for every download. */
function CsvForm() {
  const [form, setForm] = useState(chosenForm());
  const choose = (/** @type {Partial<typeof PLAIN>} */ changes) => {
    const next = { ...chosenForm(), ...changes };
    // One sign cannot be both.
    if (next.separator === next.decimal) next.separator = 'semicolon';
    browser.set(KEY, JSON.stringify(next));
    setForm(next);
  };
  const separators = SEPARATORS.filter(([name]) => name !== form.decimal);
  return html`
    <details onToggle=${() => setForm(chosenForm())}>
      <summary>How CSV is written</summary>
      <div class="controls">
        <${Choice} label="Between cells" value=${form.separator} options=${separators} onChoose=${(/** @type {string} */ separator) => choose({ separator })} />
        <${Choice} label="Decimal sign" value=${form.decimal} options=${[
          ['point', 'point, 1234.5'],
          ['comma', 'comma, 1234,5'],
        ]} onChoose=${(/** @type {string} */ decimal) => choose({ decimal })} />
        <label class="check"><input type="checkbox" checked=${form.bom === 'true'} onChange=${(/** @type {any} */ event) => choose({ bom: String(event.currentTarget.checked) })} /> <span>With a byte order mark, for Excel</span></label>
      </div>
    </details>
  `;
}
