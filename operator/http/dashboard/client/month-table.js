import { html } from './preact.js';
import { NotMeasured } from './components.js';
import { decimalsByUnit, monthText, percent, quantity, signed } from './format.js';
import { link } from './location.js';
import { useNames } from './names.js';
import { SumLink } from './sums.js';
import { figure, Table, text } from './table.js';

const BY = { metric: 'by metric', tenant: 'by tenant', sku: 'by model and class' };

/**
 * A table of a month's usage against the month before.
 * @param {{ month: any, tenant: string, by: 'metric' | 'tenant' | 'sku', costs:
 *   import('./money.js').Costs }} properties
 */
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
    return !over && month.complete_days === 0 ? '–' : 'unknown';
  };
  const partialText = (/** @type {string} */ at) => (isLate(at) ? ' (in part)' : '');
  const decimals = decimalsByUnit(rows);
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
    <${Table} caption=${`${monthText(month.month)} against ${monthText(before)}, ${BY[by]}${unit}`} rows=${rows} empty=${isLate(month.until) || since === undefined ? 'Usage of this month and the one before is unknown: metering began later.' : 'Nothing was used, in this month or the one before.'}
      columns=${[
        text(
          by === 'tenant' ? 'Tenant' : by === 'sku' ? 'Metric and model' : 'Metric',
          (row) =>
            by === 'tenant'
              ? html`<a href=${link(['months', month.month], { tenant: row.tenant })}>${nameOf(row)}</a>`
              : nameOf(row),
          (row) => `${nameOf(row)} ${row.tenant ?? ''}`,
        ),
        figure(
          `${over ? monthText(month.month) : 'So far'}${partialText(month.from)}`,
          (row) =>
            html`<${SumLink} label=${nameOf(row)} text=${quantity(row.quantity, digits(row))}
              of=${{ metric: row.metric, tenant: row.tenant ?? tenant, sku: row.sku, from: month.from, to: month.to }} />`,
          (row) => row.quantity,
        ),
        ...costs.column(over ? 'Cost' : 'Cost so far', (row) =>
          [row.metric, row.unit, row[by]].join('\0'),
        ),
        figure(
          `${monthText(before)}${isLate(month.from) ? '' : partialText(`${before}-01`)}`,
          (row) =>
            row.before === undefined
              ? html`<${NotMeasured}>before metering began</${NotMeasured}>`
              : quantity(row.before, digits(row)),
          (row) => row.before,
        ),
        figure(
          'Change',
          (row) => changeText(row, () => signed(row.change, digits(row))),
          (row) => row.change,
        ),
        figure('In percent', (row) =>
          changeText(row, () => percent(row.change, row.compared_with)),
        ),
        ...(over
          ? []
          : [
              figure(
                'Forecast',
                (row) => (row.forecast === undefined ? '–' : quantity(row.forecast, digits(row))),
                (row) => row.forecast,
              ),
            ]),
      ]} />
  `;
}
