import { resolve } from 'node:path';
import { CACHE_DIRECTORY, findCached, withLock } from './cache.ts';
import { download } from './download.ts';
import { goBuild } from './go-build.ts';
import {
  BINARIES,
  binariesIn,
  type ControlPlaneBinaries,
  KUBERNETES_VERSION,
  missingBinaries,
} from './release.ts';

export interface FindBinariesOptions {
  /** KUBEBUILDER_ASSETS: a directory that the user prepared. Wins over everything else. */
  readonly assets: string | undefined;
  readonly cacheDirectory?: string;
  /** Told, line by line, what takes long. */
  readonly progress: (line: string) => void;
  /** In the order in which they are tried; by default the upstream download, then a build from Go modules. */
  readonly sources?: readonly BinarySource[];
}

/** Somewhere that control plane programs can be had from. Fills the cache, resolves to the directory in it. */
export interface BinarySource {
  readonly name: string;
  readonly obtain: (cacheDirectory: string, progress: (line: string) => void) => Promise<string>;
}

const SOURCES: readonly BinarySource[] = [
  { name: 'upstream download', obtain: download },
  { name: 'build from Go modules', obtain: goBuild },
];

/**
 * The programs of a control plane, from the first place that has them: the user's own directory, the
 * project's cache, the upstream download, a build from Go modules. Rejects with everything
 * that was tried when there is none.
 */
export async function findBinaries(options: FindBinariesOptions): Promise<ControlPlaneBinaries> {
  if (options.assets !== undefined && options.assets !== '') return fromAssets(options.assets);
  const root = options.cacheDirectory ?? CACHE_DIRECTORY;
  const cached = await findCached(root);
  if (cached !== undefined) return binariesIn(cached);
  const waiting = (): void => options.progress('another process is preparing the control plane');
  return withLock(root, waiting, () => obtain(root, options));
}

async function fromAssets(assets: string): Promise<ControlPlaneBinaries> {
  const directory = resolve(assets);
  const missing = await missingBinaries(directory);
  if (missing.length === 0) return binariesIn(directory);
  throw new Error(
    `KUBEBUILDER_ASSETS: "${assets}": lacks ${missing.join(', ')}; ` +
      'point it at a directory that holds them, or unset it',
  );
}

async function obtain(root: string, options: FindBinariesOptions): Promise<ControlPlaneBinaries> {
  const meanwhile = await findCached(root);
  if (meanwhile !== undefined) return binariesIn(meanwhile);
  const failures: string[] = [];
  for (const source of options.sources ?? SOURCES) {
    try {
      return binariesIn(await source.obtain(root, options.progress));
    } catch (error) {
      const reason = describe(error);
      failures.push(`  ${source.name}: ${reason}`);
      options.progress(`${source.name}: not possible here: ${reason}`);
    }
  }
  throw new Error(
    [
      `control plane: no ${BINARIES.join(', ')} for Kubernetes ${KUBERNETES_VERSION}. Tried:`,
      '  KUBEBUILDER_ASSETS: not set',
      `  ${root}: empty`,
      ...failures,
      'To fix it: install Go 1.21 or later with access to a Go module proxy (GOPROXY), ' +
        'or set KUBEBUILDER_ASSETS to a directory with the three programs.',
    ].join('\n'),
  );
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error ? `${error.message} (${cause.message})` : error.message;
}
