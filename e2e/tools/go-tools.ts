import { access, constants, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { withLock } from '../control-plane/cache.ts';
import { buildModule, requireGo } from '../control-plane/go-build.ts';
import { platformName } from '../control-plane/release.ts';

/** Programs that tests need and that are built from Go modules; each has its go.mod and go.sum under build/. */
export const GO_TOOLS = {
  /** Checks requests to Stripe against Stripe's own OpenAPI specification. */
  'stripe-mock': { package: 'github.com/stripe/stripe-mock', version: 'v0.197.0' },
  /** Rates Kubernetes manifests. */
  'kube-score': { package: 'github.com/zegl/kube-score/cmd/kube-score', version: 'v1.20.0' },
} as const;

export type GoTool = keyof typeof GO_TOOLS;

export const GO_TOOL_NAMES = Object.keys(GO_TOOLS) as readonly GoTool[];

/** Kept by `make clean`, like the control plane's. */
const CACHE_DIRECTORY = resolve(import.meta.dirname, '../../.cache/tools');

/**
 * The path of a program, built when it is not in the cache: needs `go` and a Go module proxy, takes
 * about half a minute. Rejects with the reason when it cannot be had.
 */
export async function findGoTool(
  name: GoTool,
  progress: (line: string) => void,
  root = CACHE_DIRECTORY,
): Promise<string> {
  const file = join(root, `${name}-${GO_TOOLS[name].version}-${platformName()}`, name);
  if (await isExecutable(file)) return file;
  const waiting = (): void => progress('another process is building the tools');
  await withLock(root, waiting, async () => {
    if (!(await isExecutable(file))) await build(name, file, progress);
  });
  return file;
}

async function build(name: GoTool, file: string, progress: (line: string) => void): Promise<void> {
  await requireGo();
  const staging = join(root(file), `.staging-${process.pid}`);
  await mkdir(staging, { recursive: true });
  const directory = join(import.meta.dirname, 'build', name);
  const packages = [GO_TOOLS[name].package];
  const output = (into: string): string => join(into, name);
  await buildModule({ directory, packages, output, linkerFlags: '-s -w' }, staging, progress);
  await rm(dirname(file), { recursive: true, force: true });
  await rename(staging, dirname(file));
}

function root(file: string): string {
  return dirname(dirname(file));
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
