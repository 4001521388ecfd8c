import { html } from './preact.js';
import { NotMeasured } from './components.js';
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
  const isLate = (/** @type {string} */ at) =>
    since !== undefined && Date.parse(since) > Date.parse(at);
  /** There is no change on a month's first day. */
  const changeText = (/** @type {any} */ row, /** @type {() => string} */ text) => {
    if (row.change !== undefined) return text();
    return !over && month.whole_days === 0 ? '–' : 'unknown';
  };
  const partText = (/** @type {string} */ at) => (isLate(at) ? ' (in part)' : '');
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
    <${Table} caption=${`${monthText(month.month)} against ${monthText(before)}, ${BY[by]}${unit}`} rows=${rows} empty=${isLate(month.until) || since === undefined ? 'Nothing is known of this month or the one before: metering began later.' : 'Nothing was used, in this month or the one before.'}
      columns=${[
        {
          name: by === 'tenant' ? 'Tenant' : by === 'sku' ? 'Metric and model' : 'Metric',
          value: (/** @type {any} */ row) => `${nameOf(row)} ${row.tenant ?? ''}`,
          cell: (/** @type {any} */ row) =>
            by === 'tenant'
              ? html`<a href=${link(['months', month.month], { tenant: row.tenant })}>${nameOf(row)}</a>`
              : nameOf(row),
        },
        {
          name: `${over ? monthText(month.month) : 'So far'}${partText(month.from)}`,
          number: true,
          value: (/** @type {any} */ row) => row.quantity,
          cell: (/** @type {any} */ row) =>
            html`<${SumLink} label=${nameOf(row)} text=${quantity(row.quantity, digits(row))}
              of=${{ metric: row.metric, tenant: row.tenant ?? tenant, sku: row.sku, from: month.from, to: month.to }} />`,
        },
        ...costs.column(over ? 'Cost' : 'Cost so far', (row) =>
          [row.metric, row.unit, row[by]].join('\0'),
        ),
        {
          name: `${monthText(before)}${isLate(month.from) ? '' : partText(`${before}-01`)}`,
          number: true,
          value: (/** @type {any} */ row) => row.before,
          cell: (/** @type {any} */ row) =>
            row.before === undefined
              ? html`<${NotMeasured}>before metering began</${NotMeasured}>`
              : quantity(row.before, digits(row)),
        },
        {
          name: 'Change',
          number: true,
          value: (/** @type {any} */ row) => row.change,
          cell: (/** @type {any} */ row) => changeText(row, () => signed(row.change, digits(row))),
        },
        {
          name: 'In percent',
          number: true,
          cell: (/** @type {any} */ row) =>
            changeText(row, () => percent(row.change, row.compared_with)),
        },
        ...(over
          ? []
          : [
              {
                name: 'At its end',
                number: true,
                value: (/** @type {any} */ row) => row.forecast,
                cell: (/** @type {any} */ row) =>
                  row.forecast === undefined ? '–' : quantity(row.forecast, digits(row)),
              },
            ]),
      ]} />
  `;
}
