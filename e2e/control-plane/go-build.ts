import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { install } from './cache.ts';
import { KUBERNETES_VERSION } from './release.ts';

const run = promisify(execFile);

const PROGRESS_EVERY_MS = 10_000;
const MODULES = join(import.meta.dirname, 'build');

/** One `go build`: the packages of a module that become programs of the same name. */
export interface GoBuild {
  /** Holds the go.mod and go.sum that pin everything. */
  readonly directory: string;
  readonly packages: readonly string[];
  readonly output: (directory: string) => string;
  readonly linkerFlags: string;
}

const BUILDS: readonly GoBuild[] = [
  {
    directory: join(MODULES, 'etcd'),
    packages: ['go.etcd.io/etcd/server/v3'],
    output: (directory) => join(directory, 'etcd'),
    linkerFlags: '-s -w',
  },
  {
    directory: join(MODULES, 'kubernetes'),
    packages: ['k8s.io/kubernetes/cmd/kubectl', 'k8s.io/kubernetes/cmd/kube-apiserver'],
    output: (directory) => `${directory}/`,
    linkerFlags: `-s -w ${versionFlags(KUBERNETES_VERSION)}`,
  },
];

/**
 * Builds the programs from their Go modules into the cache: needs `go` and a Go module proxy, no C
 * compiler. Takes three to five minutes on two cores. Rejects with the reason when it cannot.
 */
export async function goBuild(root: string, progress: (line: string) => void): Promise<string> {
  await requireGo();
  return install(root, KUBERNETES_VERSION, async (directory) => {
    for (const build of BUILDS) await buildModule(build, directory, progress);
  });
}

/** Rejects when there is no Go toolchain. */
export async function requireGo(): Promise<void> {
  try {
    await run('go', ['version'], { env: goEnvironment() });
  } catch {
    throw new Error('no Go toolchain: "go" is not on the PATH');
  }
}

/** Rejects with the end of what the compiler said. */
export async function buildModule(
  build: GoBuild,
  directory: string,
  progress: (line: string) => void,
): Promise<void> {
  const names = build.packages.map(programName).join(' and ');
  progress(`building ${names} from Go modules (a few minutes, once)`);
  const args = ['build', '-v', '-trimpath', '-buildvcs=false', '-mod=readonly'];
  const child = spawn(
    'go',
    [...args, '-ldflags', build.linkerFlags, '-o', build.output(directory), ...build.packages],
    {
      cwd: build.directory,
      env: goEnvironment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  await follow(child, names, progress);
}

/** Reports how far a build is, from the packages and modules that `go build -v` names. */
async function follow(
  child: ChildProcess,
  names: string,
  progress: (line: string) => void,
): Promise<void> {
  const began = performance.now();
  const tail: string[] = [];
  let downloaded = 0;
  let compiled = 0;
  const report = (): void => {
    const seconds = Math.round((performance.now() - began) / 1000);
    progress(
      `building ${names}: ${seconds} s, ${downloaded} modules fetched, ${compiled} packages compiled`,
    );
  };
  const ticker = setInterval(report, PROGRESS_EVERY_MS);
  if (child.stderr !== null) {
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line.startsWith('go: downloading')) downloaded += 1;
      else compiled += 1;
      tail.push(line);
      if (tail.length > 10) tail.shift();
    });
  }
  const abandon = (): void => {
    child.kill();
  };
  process.once('exit', abandon);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  }).finally(() => {
    clearInterval(ticker);
    process.off('exit', abandon);
  });
  if (code !== 0) throw new Error(`go build ended with ${code}: ${tail.join(' | ')}`);
  report();
}

/**
 * The caller's environment with what the build depends on set plainly: no C compiler, and a newer Go
 * toolchain fetched as a module when the installed one is too old (Debian switches that off).
 */
function goEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, CGO_ENABLED: '0', GOTOOLCHAIN: 'auto', GOWORK: 'off', GOFLAGS: '' };
}

function programName(packagePath: string): string {
  if (packagePath.startsWith('go.etcd.io')) return 'etcd';
  return packagePath.slice(packagePath.lastIndexOf('/') + 1);
}

/** Linker flags that make the programs tell their release, as upstream's own build does. */
function versionFlags(version: string): string {
  const [major = '', minor = ''] = version.slice(1).split('.');
  const values = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: 'archive' };
  return ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version']
    .flatMap((path) => Object.entries(values).map(([name, value]) => `-X ${path}.${name}=${value}`))
    .join(' ');
}
