import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { PrometheusPrograms } from './programs.ts';

/** One series, as its exporter would show it. */
export interface HistoricalSeries {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The value that the exporter shows so many seconds after the history's start; undefined while it shows none. */
  readonly valueAt: (seconds: number) => number | undefined;
}

export interface HistoryOptions {
  readonly programs: PrometheusPrograms;
  /** Of the server that will serve the history. */
  readonly directory: string;
  /** Milliseconds since the epoch. */
  readonly start: number;
  readonly seconds: number;
  readonly scrapeSeconds: number;
  readonly series: readonly HistoricalSeries[];
}

const run = promisify(execFile);

/** Writes what a server would have scraped, as blocks of its storage, before the server starts. */
export async function writeHistory(options: HistoryOptions): Promise<void> {
  const { programs, directory, series } = options;
  const input = join(directory, 'history.om');
  const data = join(directory, 'data');
  await mkdir(data, { recursive: true });
  const byName = Map.groupBy(series, ({ name }) => name);
  const lines = [...byName].flatMap(([name, ofName]) => [
    `# TYPE ${name} unknown`,
    ...ofName.flatMap((one) => samplesOf(one, options)),
  ]);
  await writeFile(input, [...lines, '# EOF', ''].join('\n'));
  await run(programs.promtool, ['tsdb', 'create-blocks-from', 'openmetrics', input, data]);
}

function samplesOf(
  { name, labels, valueAt }: HistoricalSeries,
  { start, seconds, scrapeSeconds }: HistoryOptions,
): string[] {
  const selector = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  const lines: string[] = [];
  for (let second = 0; second <= seconds; second += scrapeSeconds) {
    const value = valueAt(second);
    if (value === undefined) continue;
    lines.push(`${name}{${selector.join(',')}} ${value} ${start / 1000 + second}`);
  }
  return lines;
}

/** An exporter that refreshes its values every so many seconds: what it shows is as old as that. */
export function refreshed(
  seconds: number,
  truth: (at: number) => number,
): HistoricalSeries['valueAt'] {
  return (at) => truth(Math.floor(at / seconds) * seconds);
}
