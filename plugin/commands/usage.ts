import type { Failure } from '../connection.ts';
import { list, number, text } from '../fields.ts';
import type { Answer } from '../output/print.ts';
import { sparkline } from '../output/sparkline.ts';
import type { Column } from '../output/table.ts';
import { type Command, FILTERS, filtersOf, type Given, RANGE, TENANT } from './command.ts';

const HOUR_MS = 3_600_000;
/** Bars of a sparkline, with the current hour. */
const HOURS = 12;

/** Sums of usage, with the course of the last hours. */
export const usage: Command = {
  name: 'usage',
  summary: 'sums of usage by tenant or other keys, and the last hours',
  positionals: [{ name: '[TENANT]', ...(TENANT.complete && { complete: TENANT.complete }) }],
  options: {
    ...RANGE,
    ...FILTERS,
    by: {
      type: 'string',
      value: 'KEYS',
      meaning: 'tenant, sku, region, project, day, hour or any dimension',
    },
  },
  run: sums,
};

async function sums(given: Given): Promise<Answer | Failure> {
  const { api, option, positionals } = given;
  const groupBy = option('by') ?? 'tenant';
  const filters = { tenant: positionals[0], ...filtersOf(given) };
  const range = { from: option('from'), to: option('to') };
  const answer = await api.get('/api/v1/usage', { ...filters, ...range, group_by: groupBy });
  if (answer.kind === 'failed') return answer;
  const keys = list(answer.value, 'group_by').map(String);
  const rows = list(answer.value, 'rows');
  const isOverTime = keys.some((key) => ['day', 'hour', 'window'].includes(key));
  const recent = isOverTime ? undefined : await lastHours(given, keys, filters);
  if (recent?.kind === 'failed') return recent;
  const columns: readonly Column[] = [
    ...keys.map((key): Column => ({ name: key.toUpperCase(), cut: true })),
    { name: 'METRIC', cut: true },
    { name: 'QUANTITY', align: 'right' },
    { name: 'UNIT' },
    ...(recent === undefined ? [] : [{ name: `LAST ${HOURS} HOURS`, drawn: true } as const]),
  ];
  return {
    kind: 'answer',
    document: answer.value,
    table: {
      columns,
      rows: rows.map((row) => [
        ...keys.map((key) => text(row, key)),
        text(row, 'metric'),
        text(row, 'quantity'),
        text(row, 'unit'),
        ...(recent === undefined ? [] : [recent.line(row)]),
      ]),
      empty: 'No usage in this range.',
    },
    notes: [...list(answer.value, 'warnings').map(String), text(answer.value, 'note')].filter(
      (note) => note !== '',
    ),
  };
}

interface Recent {
  readonly kind: 'recent';
  /** The sparkline of a row. */
  readonly line: (row: unknown) => string;
}

/** The same sums by hour, as one series for each row. */
async function lastHours(
  { api, now }: Given,
  keys: readonly string[],
  filters: Readonly<Record<string, string | undefined>>,
): Promise<Recent | Failure> {
  const end = (Math.floor(now / HOUR_MS) + 1) * HOUR_MS;
  const hours = Array.from({ length: HOURS }, (_, at) => end - (HOURS - at) * HOUR_MS);
  const answer = await api.get('/api/v1/usage', {
    ...filters,
    from: new Date(end - HOURS * HOUR_MS).toISOString(),
    to: new Date(end).toISOString(),
    group_by: [...keys, 'hour'].join(','),
  });
  if (answer.kind === 'failed') return answer;
  const seriesOf = (row: unknown): string =>
    JSON.stringify([...keys, 'metric', 'unit'].map((key) => text(row, key)));
  const series = Map.groupBy(list(answer.value, 'rows'), seriesOf);
  return {
    kind: 'recent',
    line: (row) => {
      const values = series.get(seriesOf(row)) ?? [];
      const byHour = new Map(
        values.map((each) => [Date.parse(text(each, 'hour')), number(each, 'quantity')]),
      );
      return sparkline(hours.map((hour) => byHour.get(hour) ?? 0));
    },
  };
}
