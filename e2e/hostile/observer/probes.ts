import { join } from 'node:path';
import { startSideProcess } from '../side-process.ts';

/** What the probes came to since the last report. */
export interface ProberReport {
  readonly sent: number;
  /** Path and what happened instead of 200. */
  readonly unanswered: readonly string[];
  readonly slowestMs: number;
}

/** Asks the operator's probes, and for an honest tenant's usage, all the time that it is up. */
export interface Probes {
  /** The operator is up from now on, as the process of this id, or is not. */
  report(up: number | 'down'): Promise<void>;
  take(): Promise<ProberReport>;
  stop(): void;
}

export interface ProbesOptions {
  /** Of the port for probes alone. */
  readonly address: string;
  /** A tenant that looks at its own usage, and must get it as fast. */
  readonly reader: { readonly address: string; readonly token: string };
}

export async function startProbes(options: ProbesOptions): Promise<Probes> {
  const side = await startSideProcess(join(import.meta.dirname, 'prober.ts'), options);
  const report = async (order: object): Promise<ProberReport> =>
    ((await side.order(order)) as { readonly report: ProberReport }).report;
  return {
    report: async (up) => void (await report({ up })),
    take: () => report({}),
    stop: () => side.stop(),
  };
}
