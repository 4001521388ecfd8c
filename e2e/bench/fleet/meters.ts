import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { LedgerDatabase } from '../../../operator/settings/settings.ts';

/** Clusters whose meters share a process, and what each of them does. */
export interface Crew {
  readonly database: LedgerDatabase;
  readonly sources: readonly string[];
  readonly tenants: number;
  readonly metrics: number;
  readonly seed: number;
}

/** A stream's batch of a window, which ended at `end`, and when it was acknowledged; milliseconds since the epoch. */
export interface Closed {
  readonly source: string;
  readonly end: number;
  readonly at: number;
}

/** What the meters of a process are told to do; they answer with what they have closed. */
export type Order =
  | { readonly kind: 'prepare'; readonly end: number }
  | { readonly kind: 'close'; readonly end: number; readonly afterMs: readonly number[] }
  | { readonly kind: 'stop' };

/** The meters of all clusters, some to a process. */
export interface BenchMeters {
  /** Makes the events of the window that ends then. */
  prepare(end: number): Promise<void>;
  /** Appends what was prepared; the clusters one after the other over so long, or all at once. */
  close(end: number, spreadMs: number): Promise<readonly Closed[]>;
  stop(): Promise<void>;
}

const A_PROCESS = 10;

/** Starts the meters of so many clusters. */
export async function startBenchMeters(
  plan: Omit<Crew, 'sources'> & { readonly streams: number },
): Promise<BenchMeters> {
  const { streams, ...each } = plan;
  const sources = Array.from({ length: streams }, (_, index) => `cluster-${index}`);
  const crews: { readonly first: number; readonly report: Report }[] = [];
  for (let first = 0; first < streams; first += A_PROCESS) {
    const crew: Crew = { ...each, sources: sources.slice(first, first + A_PROCESS) };
    crews.push({ first, report: await startCrew(crew) });
  }
  return {
    prepare: async (end) => {
      await Promise.all(crews.map(({ report }) => report({ kind: 'prepare', end })));
    },
    close: async (end, spreadMs) => {
      const closed = crews.map(({ first, report }) => {
        const places = Array.from({ length: A_PROCESS }, (_, index) => first + index);
        const afterMs = places.map((place) => (spreadMs * place) / streams);
        return report({ kind: 'close', end, afterMs });
      });
      return (await Promise.all(closed)).flat();
    },
    stop: async () => {
      await Promise.all(crews.map(({ report }) => report({ kind: 'stop' })));
    },
  };
}

type Report = (order: Order) => Promise<readonly Closed[]>;

async function startCrew(crew: Crew): Promise<Report> {
  const child = fork(join(import.meta.dirname, 'meters-process.ts'), [JSON.stringify(crew)], {
    execArgv: [],
  });
  const answer = async (): Promise<readonly Closed[]> => {
    const ended = new AbortController();
    const { signal } = ended;
    const gone = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`fleet: meters of ${crew.sources[0]} and others ended: "${code}"`);
    });
    try {
      const [closed] = await Promise.race([once(child, 'message', { signal }), gone]);
      return closed;
    } finally {
      ended.abort();
      gone.catch(() => undefined);
    }
  };
  await answer();
  return async (order) => {
    const done = answer();
    child.send(order);
    const closed = await done;
    if (order.kind === 'stop') child.disconnect();
    return closed;
  };
}
