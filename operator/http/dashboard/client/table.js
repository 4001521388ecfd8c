import { html, useState } from './preact.js';
import { count } from './format.js';

/** @typedef {import('preact').ComponentChildren} Children */

/** Tables with more columns become cards on a tablet already. */
const MANY_COLUMNS = 6;
/** Tables with more rows are searched and shown page by page. */
const MANY_ROWS = 40;
const PAGE_ROWS = 20;

/**
 * @template Row
 * @typedef {{ name: string, number?: boolean, cell: (row: Row) => Children, value?: (row: Row) =>
 *   string | number | undefined }} Column `value` is what a column is sorted and searched by;
 *   without one it is neither
 */

/**
 * A column of texts.
 * @param {string} name
 * @param {(row: any) => Children} cell
 * @param {(row: any) => string | number | undefined} [value]
 */
export function text(name, cell, value) {
  return { name, cell, ...(value && { value }) };
}

/**
 * A column of figures.
 * @param {string} name
 * @param {(row: any) => Children} cell
 * @param {(row: any) => number | undefined} [value]
 */
export function figure(name, cell, value) {
  return { ...text(name, cell, value), number: true };
}

/**
 * A table. On a narrow screen each row is a card with the names of its values. A column is text
 * unless it has `number`. A long table has pages and a search.
 * @template Row
 * @param {{ caption: string, columns: Column<Row>[], rows: Row[], empty: Children }} properties
 */
export function Table({ caption, columns, rows, empty }) {
  const [sorting, setSorting] = useState(/** @type {Sorting} */ ({ name: '', down: false }));
  const [wanted, setWanted] = useState('');
  const [page, setPage] = useState(0);
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const isLong = rows.length > MANY_ROWS;
  const found = sorted(isLong ? matching(rows, columns, wanted) : rows, columns, sorting);
  const last = isLong ? Math.max(0, Math.ceil(found.length / PAGE_ROWS) - 1) : 0;
  const first = Math.min(page, last) * PAGE_ROWS;
  const shown = isLong ? found.slice(first, first + PAGE_ROWS) : found;
  const [head, ...others] = columns;
  const kind = (/** @type {{ number?: boolean }} */ { number }) => (number ? 'number' : 'text');
  const wide = columns.length > MANY_COLUMNS ? 'wide' : '';
  const search = (/** @type {any} */ event) => {
    setWanted(event.currentTarget.value);
    setPage(0);
  };
  // Explicit roles: with the style of cards, browsers see no table.
  return html`
    ${isLong && html`<label class="field">Search <input type="search" value=${wanted} aria-label=${`Search: ${caption}`} onInput=${search} /></label>`}
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table role="table" class=${`cards ${wide}`}>
        <caption>${caption}</caption>
        <thead role="rowgroup">
          <tr role="row">${columns.map((column) => html`<${Head} column=${column} kind=${kind(column)} sorting=${sorting} sort=${setSorting} />`)}</tr>
        </thead>
        <tbody role="rowgroup">
          ${shown.map(
            (row) => html`
              <tr role="row">
                <th role="rowheader" scope="row">${head?.cell(row)}</th>
                ${others.map((column) => html`<td role="cell" class=${kind(column)} data-label=${column.name}><span>${column.cell(row)}</span></td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
    ${
      isLong &&
      html`
      <nav class="pages" aria-label=${`Pages: ${caption}`}>
        <button disabled=${first === 0} onClick=${() => setPage(Math.min(page, last) - 1)}>‹ Back</button>
        <button disabled=${first + PAGE_ROWS >= found.length} onClick=${() => setPage(Math.min(page, last) + 1)}>Next ›</button>
        <span role="status">${found.length === 0 ? 'No row has it' : `${count(first + 1)} to ${count(first + shown.length)} of ${count(found.length)}`}</span>
      </nav>
    `
    }
  `;
}

/**
 * @typedef {{ name: string, down: boolean }} Sorting by the column of a name; in the order that the
 *   rows came in where it is empty
 */

/**
 * The head of a column. A click sorts by it, numbers from the largest, texts from A; a second click
 * reverses that.
 * @param {{ column: Column<any>, kind: string, sorting: Sorting, sort: (next: Sorting) => void }}
 *   properties
 */
function Head({ column: { name, number = false, value }, kind, sorting, sort }) {
  const isSorted = sorting.name === name;
  const order = isSorted ? (sorting.down ? 'descending' : 'ascending') : undefined;
  const down = isSorted ? !sorting.down : number;
  return html`
    <th role="columnheader" scope="col" class=${kind} aria-sort=${order}>
      ${value === undefined ? name : html`<button class="sort" onClick=${() => sort({ name, down })}>${name}</button>`}
    </th>
  `;
}

/** @template Row @param {Row[]} rows @param {Column<Row>[]} columns @param {string} wanted */
function matching(rows, columns, wanted) {
  const text = wanted.trim().toLowerCase();
  if (text === '') return rows;
  return rows.filter((row) =>
    columns.some(({ value }) => {
      const of = value?.(row);
      return typeof of === 'string' && of.toLowerCase().includes(text);
    }),
  );
}

const TEXT_ORDER = new Intl.Collator('en', { numeric: true });

/**
 * Sorts rows; those without a value come last, in either direction.
 * @template Row
 * @param {Row[]} rows
 * @param {Column<Row>[]} columns
 * @param {Sorting} sorting
 */
function sorted(rows, columns, { name, down }) {
  const value = columns.find((column) => column.name === name)?.value;
  if (value === undefined) return rows;
  return rows.toSorted((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === undefined || y === undefined)
      return Number(x === undefined) - Number(y === undefined);
    const order =
      typeof x === 'number' && typeof y === 'number'
        ? x - y
        : TEXT_ORDER.compare(String(x), String(y));
    return down ? -order : order;
  });
}
