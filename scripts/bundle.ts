import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { documentFiles, vendorFiles } from '../operator/http/dashboard/dashboard.ts';

const ROOT = join(import.meta.dirname, '..');
const CLIENT = join(ROOT, 'operator/http/dashboard/client');

/**
 * LevelDB's binding for Node, used by `level`. It is native code, so it stays a separate package
 * beside the bundle.
 */
const NATIVE_PACKAGE = 'classic-level';
const PLATFORMS = ['linux-x64', 'linux-arm64'];

/** CommonJS packages load built-in modules by `require`. */
const REQUIRE_BANNER =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);";

/** Entry points: operator, reader thread of tenant APIs, and ledger tool. */
const ENTRY_POINTS = {
  main: join(ROOT, 'operator/main.ts'),
  'tenant-reader': join(ROOT, 'operator/tenant-api/reading/worker.ts'),
  ledger: join(ROOT, 'scripts/ledger.ts'),
};

/**
 * Writes the content of the image to a directory: the operator and its thread as one file each, the
 * dashboard's files, and LevelDB's binding with its dependencies.
 */
export async function bundle(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  await build({
    entryPoints: ENTRY_POINTS,
    outdir: directory,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    minifySyntax: true,
    minifyWhitespace: true,
    // Short local names save a third of all bytes. Functions and classes keep their names, for
    // stacks and readers.
    minifyIdentifiers: true,
    keepNames: true,
    // The process keeps its own text in memory. One character beyond Latin-1 would double its size.
    charset: 'ascii',
    legalComments: 'external',
    external: [NATIVE_PACKAGE],
    // The other build reads a file beside itself, which a bundle does not have.
    alias: { '@platformatic/wasm-utils': '@platformatic/wasm-utils/bundled' },
    banner: { js: REQUIRE_BANNER },
    logLevel: 'warning',
  });
  await writeFile(join(directory, 'package.json'), '{"type":"module"}\n');
  await copyDashboard(join(directory, 'client'));
  await copyPackage(NATIVE_PACKAGE, ROOT, join(directory, 'node_modules'), new Set());
}

/**
 * Bundles each script of the pages with its imports: a browser fetches one file instead of sixty.
 */
const PAGES = { main: join(CLIENT, 'main.js'), 'portal/main': join(CLIENT, 'portal/main.js') };

async function copyDashboard(target: string): Promise<void> {
  const served = (path: string): boolean => !/\.(ts|js|json)$/.test(path);
  await cp(CLIENT, target, { recursive: true, filter: served });
  const styles = vendorFiles().filter(([path]) => path.endsWith('.css'));
  for (const [path, file] of [...styles, ...documentFiles()]) await cp(file, join(target, path));
  await build({
    entryPoints: PAGES,
    outdir: target,
    bundle: true,
    platform: 'browser',
    target: 'es2024',
    format: 'esm',
    minify: true,
    legalComments: 'external',
    plugins: [VENDOR],
    logLevel: 'warning',
  });
}

/**
 * Returns the libraries under the names that the pages use, and Preact under the name that its
 * hooks use.
 */
const VENDOR: Plugin = {
  name: 'vendor',
  setup: (bundler) => {
    const files = new Map(vendorFiles());
    bundler.onResolve({ filter: /^preact$|vendor\/\w+\.js$/ }, ({ path }) => {
      const name = path === 'preact' ? 'vendor/preact.js' : path.replace(/^.*(?=vendor\/)/, '');
      const file = files.get(name);
      return file === undefined
        ? { errors: [{ text: `no such library: "${path}"` }] }
        : { path: file };
    });
  },
};

/**
 * Copies a package and its dependencies, without sources, tests and binaries for other platforms.
 */
async function copyPackage(
  name: string,
  from: string,
  target: string,
  done: Set<string>,
): Promise<void> {
  if (done.has(name)) return;
  done.add(name);
  const manifest = manifestOf(name, from);
  const source = dirname(manifest);
  const wanted = (path: string): boolean => {
    const inside = path.slice(source.length + 1);
    if (/^(deps|node_modules|test|types)(\/|$)|\.(cc|gyp|md|ts|h)$/.test(inside)) return false;
    const [, platform] = /^prebuilds\/([^/]+)/.exec(inside) ?? [];
    return platform === undefined || PLATFORMS.includes(platform);
  };
  await cp(source, join(target, name), { recursive: true, filter: wanted });
  const { dependencies = {} } = JSON.parse(await readFile(manifest, 'utf8')) as {
    dependencies?: Record<string, string>;
  };
  for (const dependency of Object.keys(dependencies)) {
    await copyPackage(dependency, source, target, done);
  }
}

/** Finds the package.json of a package as code in a directory would. */
function manifestOf(name: string, directory: string): string {
  return createRequire(join(directory, 'x.js')).resolve(`${name}/package.json`);
}

if (import.meta.main) {
  const directory = join(ROOT, 'dist');
  await bundle(directory);
  console.log(`bundled into ${directory}`);
}
