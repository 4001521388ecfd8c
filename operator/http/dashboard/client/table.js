import { html } from './preact.js';

/** @typedef {import('preact').ComponentChildren} Children */

/** Tables with more columns become cards on a tablet already. */
const MANY_COLUMNS = 6;

/**
 * A table; on a narrow screen each row is a card, which names its values itself. A column is text unless it
 * says `number`.
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
  const wide = columns.length > MANY_COLUMNS ? 'wide' : '';
  // The roles are said again because cards are no table to a browser.
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table role="table" class=${`cards ${wide}`}>
        <caption>${caption}</caption>
        <thead role="rowgroup">
          <tr role="row">${columns.map((column) => html`<th role="columnheader" scope="col" class=${kind(column)}>${column.name}</th>`)}</tr>
        </thead>
        <tbody role="rowgroup">
          ${rows.map(
            (row) => html`
              <tr role="row">
                <th role="rowheader" scope="row">${first?.cell(row)}</th>
                ${others.map((column) => html`<td role="cell" class=${kind(column)} data-label=${column.name}><span>${column.cell(row)}</span></td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
