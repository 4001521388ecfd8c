import { hash } from 'node:crypto';
import { damage } from '../failures.ts';
import type { Series } from './event-rows.ts';
import { createTemplate, type EventTemplate } from './event-template.ts';
import type { Row, Statement } from './session.ts';

/** A series with its number in a stream. */
export interface NumberedSeries extends Series {
  readonly number: number;
  /** {@link seriesKey}. */
  readonly key: string;
  /** The newest day known to be noted in its row. */
  readonly lastDay: string;
  /** The properties of its newest event, as JSON, while it has none itself; not stored. */
  readonly lastProperties?: string;
  /** Undefined where its events are not all alike. */
  readonly template: EventTemplate | undefined;
}

/** A series with its number, and with the template of its events. */
export function numberedSeries(
  series: Series,
  { number, key, lastDay }: Pick<NumberedSeries, 'number' | 'key' | 'lastDay'>,
): NumberedSeries {
  return { ...series, number, key, lastDay, template: createTemplate(series) };
}

/** What tells a series from every other one. */
const IDENTITY = [
  'fields',
  'tenant',
  'metric',
  'unit',
  'region',
  'project',
  'sku',
  'resource_id',
  'source',
  'dimensions',
] as const;
/** All that a series has. */
export const SERIES_COLUMNS = [...IDENTITY, 'properties'] as const;

/** A hash of what tells a series from every other one. */
export function seriesKey(series: Series): string {
  return hash('sha256', JSON.stringify(IDENTITY.map((name) => series[name] ?? null)), 'hex').slice(
    0,
    32,
  );
}

/** The series with these keys. */
export function selectByKey(stream: number, keys: readonly string[]): Statement {
  return {
    text: `select key, series, last_day::text, ${SERIES_COLUMNS.join(', ')} from meterfeed.series
      where stream = $1 and key = any($2::uuid[])`,
    values: [stream, keys],
  };
}

/** The series with these numbers. */
export function selectByNumber(stream: number, numbers: readonly number[]): Statement {
  return {
    text: `select series, ${SERIES_COLUMNS.join(', ')} from meterfeed.series
      where stream = $1 and series = any($2::integer[])`,
    values: [stream, numbers],
  };
}

/** Stores new series. */
export function insertSeries(
  stream: number,
  day: string,
  series: readonly NumberedSeries[],
): Statement {
  return {
    text: `insert into meterfeed.series (stream, last_day, series, key, ${SERIES_COLUMNS.join(', ')})
      select $1, $2, * from unnest($3::integer[], $4::uuid[], ${SERIES_COLUMNS.map((_, index) => `$${index + 5}::text[]`).join(', ')})`,
    values: [
      stream,
      day,
      series.map(({ number }) => number),
      series.map(({ key }) => key),
      ...SERIES_COLUMNS.map((name) => series.map((one) => one[name] ?? null)),
    ],
  };
}

/** Notes that a day has events of these series. */
export function touchSeries(stream: number, day: string, numbers: readonly number[]): Statement {
  return {
    text: 'update meterfeed.series set last_day = $2 where stream = $1 and series = any($3::integer[])',
    values: [stream, day, numbers],
    rows: numbers.length,
  };
}

/** Gives series that have none the properties of their events. They stay, because events rely on them. */
export function shareProperties(stream: number, series: readonly NumberedSeries[]): Statement {
  return {
    text: `update meterfeed.series s set properties = shared.properties
      from unnest($2::integer[], $3::text[]) as shared (series, properties)
      where s.stream = $1 and s.series = shared.series and s.properties is null`,
    values: [
      stream,
      series.map(({ number }) => number),
      series.map(({ properties }) => properties),
    ],
    rows: series.length,
  };
}

/** The series in a row of {@link selectByKey}, to write with. */
export function numberedSeriesOf(row: Row): NumberedSeries {
  const series = seriesOf(row);
  return numberedSeries(series, {
    // Of what the row says, so that a changed one is not taken for what it was.
    key: seriesKey(series),
    number: Number(row['series']),
    lastDay: row['last_day'] ?? '',
  });
}

/** What is in a row of {@link selectByKey} or {@link selectByNumber}. */
export function seriesOf(row: Row): Series {
  const fields = SERIES_COLUMNS.flatMap((name) => {
    const value = row[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  const series = Object.fromEntries(fields) as Partial<Series>;
  const { fields: names, tenant, metric, unit } = series;
  if (names === undefined || tenant === undefined || metric === undefined || unit === undefined) {
    throw damage('series', `a column is empty in "${row['series']}"`);
  }
  return { ...series, fields: names, tenant, metric, unit };
}
