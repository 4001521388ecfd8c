import { appendFileSync, readFileSync } from 'node:fs';

/** What really happened to one pod, for tests to hold the billed seconds against. */
export interface PodTruth {
  readonly uid: string;
  /** Host namespace and name. */
  readonly namespace: string;
  readonly name: string;
  /** Id of the tenant cluster. */
  readonly tenantCluster: string;
  /** Its namespace inside the tenant cluster. */
  readonly tenantNamespace: string;
  readonly requests: Readonly<Record<string, string>>;
  /** First start of any of its containers, RFC 3339 to the second. */
  readonly startedAt: string;
  /** Last end of any of its containers. */
  readonly finishedAt: string;
  /** finishedAt − startedAt */
  readonly seconds: number;
}

/** Appends the truth of ended pods to a file, one JSON object a line, each pod once. */
export interface TruthLog {
  record(truth: Omit<PodTruth, 'seconds'>): void;
}

export function openTruthLog(file: string): TruthLog {
  const known = new Set(readTruth(file).map(({ uid }) => uid));
  return {
    record: (truth) => {
      if (known.has(truth.uid)) return;
      known.add(truth.uid);
      const seconds = (Date.parse(truth.finishedAt) - Date.parse(truth.startedAt)) / 1000;
      appendFileSync(file, `${JSON.stringify({ ...truth, seconds })}\n`);
    },
  };
}

/** All that is recorded in a file; a last line cut short by a kill is left out. */
export function readTruth(file: string): readonly PodTruth[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const complete = text.slice(0, text.lastIndexOf('\n') + 1);
  return complete
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as PodTruth);
}
