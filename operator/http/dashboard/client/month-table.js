import { html } from './preact.js';
import { decimalsOf, monthText, percent, quantity, signed } from './format.js';
import { link } from './location.js';
import { useNames } from './names.js';
import { SumLink } from './sums.js';
import { Table } from './table.js';

const BY = { metric: 'by metric', tenant: 'by tenant', sku: 'by model and class' };

/** A month's rows against the month before. @param {{ month: any, tenant: string, by: 'metric' | 'tenant' | 'sku', costs: import('./money.js').Costs }} properties */
export function MonthTable({ month, tenant, by, costs }) {
  const names = useNames();
  const { over, before, measured_since: since } = month;
  const order = new Map(names.metrics.map(({ code }, index) => [code, index]));
  const place = (/** @type {any} */ row) => order.get(row.metric) ?? order.size;
  const rows = month.rows.toSorted(
    (/** @type {any} */ a, /** @type {any} */ b) => place(a) - place(b),
  );
  // Unknown is not zero: what nobody measured is no month to be held against.
  const known = since === undefined || Date.parse(since) < Date.parse(month.from);
  const decimals = new Map(
    [...Map.groupBy(rows, (/** @type {any} */ row) => row.unit)].map(([unit, of]) => [
      unit,
      decimalsOf(
        unit,
        of.map((/** @type {any} */ row) => row.quantity),
      ),
    ]),
  );
  const digits = (/** @type {any} */ row) => decimals.get(row.unit) ?? 3;
  const nameOf = (/** @type {any} */ row) => {
    if (by === 'tenant') return names.tenant(row.tenant);
    const metric = names.metricWithUnit(row.metric, row.unit);
    return by === 'sku' ? `${metric} on ${row.sku}` : metric;
  };
  const [first] = rows;
  const unit =
    by === 'tenant' && first ? `, ${names.metricWithUnit(first.metric, first.unit)}` : '';
  return html`
    <${Table} caption=${`${monthText(month.month)} against ${monthText(before)}, ${BY[by]}${unit}`} rows=${rows} empty="Nothing was used, in this month or the one before."
      columns=${[
        {
          name: by === 'tenant' ? 'Tenant' : by === 'sku' ? 'Metric and model' : 'Metric',
          cell: (/** @type {any} */ row) =>
            by === 'tenant'
              ? html`<a href=${link(['months', month.month], { tenant: row.tenant })}>${nameOf(row)}</a>`
              : nameOf(row),
        },
        {
          name: over ? monthText(month.month) : 'So far',
          number: true,
          cell: (/** @type {any} */ row) =>
            html`<${SumLink} label=${nameOf(row)} text=${quantity(row.quantity, digits(row))}
              of=${{ metric: row.metric, tenant: row.tenant ?? tenant, sku: row.sku, from: month.from, to: month.to }} />`,
        },
        ...costs.column(over ? 'Cost' : 'Cost so far', (row) =>
          [row.metric, row.unit, row[by]].join('\0'),
        ),
        {
          name: monthText(before),
          number: true,
          cell: (/** @type {any} */ row) => (known ? quantity(row.before, digits(row)) : '–'),
        },
        {
          name: 'Change',
          number: true,
          cell: (/** @type {any} */ row) =>
            known && row.change !== undefined ? signed(row.change, digits(row)) : '–',
        },
        {
          name: 'In percent',
          number: true,
          cell: (/** @type {any} */ row) =>
            known && row.change !== undefined ? percent(row.change, row.compared_with) : '–',
        },
        ...(over
          ? []
          : [
              {
                name: 'At its end',
                number: true,
                cell: (/** @type {any} */ row) =>
                  row.forecast === undefined ? '–' : quantity(row.forecast, digits(row)),
              },
            ]),
      ]} />
  `;
}
