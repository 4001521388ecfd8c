import { html } from './preact.js';
import { plain, quantity } from './format.js';
import { figure, Table } from './table.js';

/** What a tenant, or nobody, has of GPUs: the columns after the names. GPU-hours. */
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

/** What the columns say, for whoever reads them for the first time. */
export function GpuWords() {
  return html`
    <details>
      <summary>What the words mean</summary>
      <dl class="facts">
        <dt>Delivered</dt><dd>All GPUs of nodes that are a tenant’s whole, and what its pods hold of other nodes.</dd>
        <dt>Healthy</dt><dd>Of what is delivered, what is not down or missing.</dd>
        <dt>Reserved</dt><dd>Of what is delivered, what nobody else can have.</dd>
        <dt>In use</dt><dd>Of what is healthy, what pods hold.</dd>
        <dt>Idle</dt><dd>Of what is healthy, what no pod holds.</dd>
        <dt>Utilisation</dt><dd>How busy the GPUs were that Prometheus knows, on average; unknown where it knows none.</dd>
      </dl>
    </details>
  `;
}
