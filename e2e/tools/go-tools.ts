import { access, constants, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { withLock } from '../control-plane/cache.ts';
import { buildModule, requireGo } from '../control-plane/go-build.ts';
import { KUBERNETES_VERSION, platformName } from '../control-plane/release.ts';

interface Tool {
  readonly package: string;
  readonly version: string;
  /** Holds its go.mod and go.sum; by default `build/<name>`. */
  readonly directory?: string;
}

const KUBERNETES_MODULE = resolve(import.meta.dirname, '../control-plane/build/kubernetes');

/** Programs that tests need and that are built from Go modules. */
export const GO_TOOLS = {
  /** Checks requests to Stripe against Stripe's own OpenAPI specification. */
  'stripe-mock': { package: 'github.com/stripe/stripe-mock', version: 'v0.197.0' },
  /** Rates Kubernetes manifests. */
  'kube-score': { package: 'github.com/zegl/kube-score/cmd/kube-score', version: 'v1.20.0' },
  /** Renders and installs the charts. */
  helm: { package: 'helm.sh/helm/v4/cmd/helm', version: 'v4.3.1' },
  /** Validates the bundle for the Operator Lifecycle Manager as its catalogues do. */
  'operator-verify': {
    package: 'github.com/operator-framework/api/cmd/operator-verify',
    version: 'v0.42.0',
  },
  /** Empties namespaces, makes pods and volumes: only the long suites run it, since it takes five minutes to build. */
  'kube-controller-manager': {
    package: 'k8s.io/kubernetes/cmd/kube-controller-manager',
    version: KUBERNETES_VERSION,
    directory: KUBERNETES_MODULE,
  },
  /** Gives pods their nodes beside a real vCluster. */
  'kube-scheduler': {
    package: 'k8s.io/kubernetes/cmd/kube-scheduler',
    version: KUBERNETES_VERSION,
    directory: KUBERNETES_MODULE,
  },
  /** The control plane of one tenant cluster, as it is released: five minutes to build. */
  vcluster: { package: 'github.com/loft-sh/vcluster/cmd/vcluster', version: 'v0.36.0' },
} as const satisfies Readonly<Record<string, Tool>>;

export type GoTool = keyof typeof GO_TOOLS;

/** Those of `make test`. */
export const GO_TOOL_NAMES: readonly GoTool[] = [
  'stripe-mock',
  'kube-score',
  'helm',
  'operator-verify',
];

export function isGoTool(name: string): name is GoTool {
  return Object.hasOwn(GO_TOOLS, name);
}

/** Kept by `make clean`, like the control plane's. */
const CACHE_DIRECTORY = resolve(import.meta.dirname, '../../.cache/tools');

/**
 * The path of a program, built when it is not in the cache: needs `go` and a Go module proxy, takes
 * half a minute, Helm three, and those of Kubernetes and vCluster five to ten. Rejects with the reason when it cannot be had.
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
  const tool: Tool = GO_TOOLS[name];
  const { directory = join(import.meta.dirname, 'build', name) } = tool;
  const packages = [tool.package];
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
