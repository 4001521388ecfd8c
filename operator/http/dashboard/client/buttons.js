import { html, useRef, useState } from './preact.js';
import { ApiError } from './api.js';
import { Notice } from './components.js';

const RESULT_MS = 2000;

/** A button that copies an id or a code. @param {{ text: string, what: string }} properties */
export function CopyButton({ text, what }) {
  const [outcome, setOutcome] = useState('');
  const copy = async () => {
    setOutcome((await copied(text)) ? 'Copied' : text);
    setTimeout(() => setOutcome(''), RESULT_MS);
  };
  return html`
    <button class="copy" title=${text} onClick=${copy}>Copy ${what}</button>
    <span role="status" class="said">${outcome}</span>
  `;
}

/**
 * Copies a text; false when the browser refuses. Without TLS browsers have no clipboard API, so it
 * copies from a field.
 * @param {string} text
 */
async function copied(text) {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const field = document.createElement('textarea');
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  return done;
}

/**
 * A button with a confirmation. With `insist` it asks once more when the operator answers 409: the
 * change has effects that the reader may not expect.
 * @param {{
 *   label: string, question: string, explanation: string, tone?: 'primary' | 'danger',
 *   disabled?: boolean, action: () => Promise<string>,
 *   insist?: { label: string, action: () => Promise<string> }, onDone: () => void,
 * }} properties
 */
export function ConfirmButton({
  label,
  question,
  explanation,
  tone = 'primary',
  disabled = false,
  action,
  insist,
  onDone,
}) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [result, setResult] = useState('');
  const [warning, setWarning] = useState('');
  const [busy, setBusy] = useState(false);
  const insists = insist !== undefined && warning !== '';
  const run = async () => {
    setBusy(true);
    try {
      setResult(await (insists ? insist.action() : action()));
      onDone();
      dialog.current?.close();
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      const reaches = error instanceof ApiError && error.status === 409;
      if (insist !== undefined && !insists && reaches) setWarning(text);
      else {
        setResult(text);
        dialog.current?.close();
      }
    }
    setBusy(false);
  };
  return html`
    <button class=${tone} disabled=${disabled} onClick=${() => dialog.current?.showModal()}>${label}</button>
    <span role="status">${result}</span>
    <dialog ref=${dialog} aria-label=${question} onClose=${() => setWarning('')}>
      <h2>${question}</h2>
      <div role="alert">${insists && html`<${Notice} title="Nothing was done yet"><p>${warning}</p></${Notice}>`}</div>
      ${insists || html`<p>${explanation}</p>`}
      <div class="buttons">
        <button onClick=${() => dialog.current?.close()}>Cancel</button>
        <button class=${insists ? 'danger' : tone} disabled=${busy} onClick=${run}>${insists ? insist.label : label}</button>
      </div>
    </dialog>
  `;
}
