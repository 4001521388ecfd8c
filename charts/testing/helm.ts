import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll } from 'vitest';
import type { TestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { findGoTool } from '../../e2e/tools/go-tools.ts';
import { CHARTS } from '../../scripts/generate-charts.ts';

/** The namespace that config/ is written for. */
export const NAMESPACE = 'meterfeed-system';

export const CONFIG = join(CHARTS, '../config');

/** Folders of config/components/. */
export const COMPONENTS = await readdir(join(CONFIG, 'components'));

/** The real Helm, with files of its own and a test's API server. */
export interface Helm {
  /** Resolves to its standard output; rejects with what it said. */
  run(...args: readonly string[]): Promise<string>;
  /** `helm template` of a chart, for {@link NAMESPACE}. */
  render(name: string, ...args: readonly string[]): Promise<string>;
  /** Where it keeps its files, and tests theirs. */
  readonly directory: () => string;
}

/** Gives a test file Helm, which is built when it is not in the cache. Call it at the top of the file. */
export function useHelm(cluster: TestCluster): Helm {
  let directory = '';
  let program = '';
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'meterfeed-charts-'));
    program = await findGoTool('helm', () => undefined);
  }, 15 * 60_000);
  afterAll(() => rm(directory, { recursive: true, force: true }));
  const run = async (...args: readonly string[]): Promise<string> => {
    const env = { ...process.env, HOME: directory, KUBECONFIG: cluster.kubeconfigPath };
    const options = { env, maxBuffer: 64 * 1024 * 1024 };
    return (await promisify(execFile)(program, args, options)).stdout;
  };
  return {
    run,
    render: (name, ...args) =>
      run('template', 'meterfeed', chart(name), '--namespace', NAMESPACE, ...args),
    directory: () => directory,
  };
}

/** The folder of a chart. */
export function chart(name: string): string {
  return join(CHARTS, name);
}

/** `--set` for each assignment; `settings` are texts. */
export function flags(assignments: readonly string[]): readonly string[] {
  return assignments.flatMap((each) => [
    each.startsWith('settings.') ? '--set-string' : '--set',
    each,
  ]);
}
