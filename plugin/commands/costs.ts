import type { Failure } from '../connection.ts';
import { list, text } from '../fields.ts';
import type { Answer } from '../output/print.ts';
import { type Command, FILTERS, filtersOf, type Given, RANGE, TENANT } from './command.ts';

/** What usage costs by the price books. */
export const costs: Command = {
  name: 'costs',
  summary: 'what usage costs by the price books',
  positionals: [{ name: '[TENANT]', ...(TENANT.complete && { complete: TENANT.complete }) }],
  options: {
    ...RANGE,
    ...FILTERS,
    by: {
      type: 'string',
      value: 'KEYS',
      meaning: 'tenant, sku, region, project, plan, price, day, hour or any dimension',
    },
  },
  run: priced,
};

async function priced(given: Given): Promise<Answer | Failure> {
  const { api, option, positionals } = given;
  const answer = await api.get('/api/v1/costs', {
    tenant: positionals[0],
    ...filtersOf(given),
    from: option('from'),
    to: option('to'),
    group_by: option('by') ?? 'tenant',
  });
  if (answer.kind === 'failed') return answer;
  const { value } = answer;
  const keys = list(value, 'group_by').map(String);
  const figures = ['quantity', 'unit', 'unpriced', 'cost', 'currency'];
  const right = ['quantity', 'unpriced', 'cost'];
  return {
    kind: 'answer',
    document: value,
    table: {
      columns: [...keys, 'metric', ...figures].map((name) => ({
        name: name.toUpperCase(),
        ...(right.includes(name) && { align: 'right' }),
        ...(!figures.includes(name) && { cut: true }),
      })),
      rows: list(value, 'rows').map((row) =>
        [...keys, 'metric', ...figures].map((name) => text(row, name)),
      ),
      empty: 'No usage in this range.',
    },
    notes: notesOf(value),
  };
}

function notesOf(value: unknown): readonly string[] {
  const sums = list(value, 'amounts').map(
    (amount) => `${text(amount, 'cost')} ${text(amount, 'currency')}`,
  );
  const plans = list(value, 'plans_without_prices').map(String).join(', ');
  return [
    ...(sums.length === 0 ? [] : [`Total: ${sums.join(' + ')}`]),
    ...(plans === '' ? [] : [`No PriceBook has prices for: ${plans}`]),
    ...list(value, 'warnings').map(String),
    text(value, 'note'),
  ].filter((note) => note !== '');
}
