import { html } from './preact.js';
import { plain, quantity } from './format.js';
import { figure, Table } from './table.js';

/** The columns after the names, in GPU-hours. */
const FIGURES = [
  ['Delivered', 'delivered'],
  ['Healthy', 'healthy'],
  ['Reserved', 'reserved'],
  ['In use', 'in_use'],
  ['Idle', 'idle'],
];

/**
 * Rows of GET /api/v1/gpus in GPU-hours, with how busy the GPUs were.
 * @param {{ caption: string, rows: any[], names: import('./table.js').Column<any>[],
 *   empty: string }} properties
 */
export function GpuTable({ caption, rows, names, empty }) {
  const hasInstalled = rows.some((row) => row.installed !== undefined);
  const figures = hasInstalled ? [['Installed', 'installed'], ...FIGURES] : FIGURES;
  return html`
    <${Table} caption=${caption} rows=${rows} empty=${empty}
      columns=${[
        ...names,
        ...figures.map(([name = '', field = '']) => ({
          name,
          number: true,
          value: (/** @type {any} */ row) => row[field],
          cell: (/** @type {any} */ row) => quantity(row[field]),
        })),
        figure('Utilisation', (row) => utilizationText(row.utilization)),
      ]} />
  `;
}

/** @param {number | 'unknown'} utilization percent */
export function utilizationText(utilization) {
  return utilization === 'unknown' ? 'unknown' : `${plain(Math.round(utilization * 10) / 10)} %`;
}

/** A legend of the columns. */
export function GpuWords() {
  return html`
    <details>
      <summary>What the words mean</summary>
      <dl class="facts">
        <dt>Delivered</dt><dd>All GPUs of nodes that only this tenant uses, and GPUs of its pods on other nodes.</dd>
        <dt>Healthy</dt><dd>Delivered GPUs that are neither down nor missing.</dd>
        <dt>Reserved</dt><dd>Delivered GPUs that no other tenant can use.</dd>
        <dt>In use</dt><dd>Healthy GPUs that pods have.</dd>
        <dt>Idle</dt><dd>Healthy GPUs that no pod has.</dd>
        <dt>Utilisation</dt><dd>How busy the GPUs were on average, as far as Prometheus measured it; otherwise unknown.</dd>
      </dl>
    </details>
  `;
}
