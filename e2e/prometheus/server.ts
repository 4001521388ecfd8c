import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import type { PrometheusPrograms } from './programs.ts';

export interface PrometheusServerOptions {
  readonly programs: PrometheusPrograms;
  /** Holds its data (`data/`), configuration, log and pid file. */
  readonly directory: string;
  readonly port: number;
  /** What is scraped, by the name of the job; nothing by default. */
  readonly targets?: Readonly<Record<string, ScrapeTarget>>;
  readonly scrapeInterval?: string;
  /** Further arguments, such as limits of queries. */
  readonly flags?: readonly string[];
  readonly signal?: AbortSignal;
}

export interface ScrapeTarget {
  /** `host:port` */
  readonly address: string;
  readonly path: string;
  /** Labels of the target itself. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Whether the exporter's own labels win over those; otherwise they become `exported_…`. */
  readonly honorLabels: boolean;
}

export interface PrometheusServer extends ManagedProcess {
  readonly url: string;
}

/** A real Prometheus server on 127.0.0.1, ready to be asked. */
export async function startPrometheusServer(
  options: PrometheusServerOptions,
): Promise<PrometheusServer> {
  const { directory, port } = options;
  const file = (name: string): string => join(directory, name);
  await mkdir(file('data'), { recursive: true });
  await writeFile(file('prometheus.json'), JSON.stringify(configuration(options), null, 2));
  const url = `http://127.0.0.1:${port}`;
  const started = await startProcess({
    name: 'prometheus',
    command: options.programs.prometheus,
    args: [
      `--config.file=${file('prometheus.json')}`,
      `--storage.tsdb.path=${file('data')}`,
      '--storage.tsdb.retention.time=20y',
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
      ...(options.flags ?? []),
    ],
    env: {},
    logFile: file('prometheus.log'),
    pidFile: file('prometheus.pid'),
    ready: async () => (await fetch(`${url}/-/ready`)).ok,
    signal: options.signal,
  });
  return { ...started, url };
}

/** JSON is YAML. */
function configuration({ targets = {}, scrapeInterval = '15s' }: PrometheusServerOptions): object {
  return {
    global: { scrape_interval: scrapeInterval, scrape_timeout: scrapeInterval },
    scrape_configs: Object.entries(targets).map(([job, target]) => ({
      job_name: job,
      metrics_path: target.path,
      honor_labels: target.honorLabels,
      static_configs: [{ targets: [target.address], labels: target.labels ?? {} }],
    })),
  };
}
