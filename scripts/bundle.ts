import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { documentFiles, vendorFiles } from '../operator/http/dashboard/dashboard.ts';

const ROOT = join(import.meta.dirname, '..');
const CLIENT = join(ROOT, 'operator/http/dashboard/client');

/** LevelDB's binding, which `level` is on Node: native code, so it stays a package of its own beside the bundle. */
const NATIVE_PACKAGE = 'classic-level';
const PLATFORMS = ['linux-x64', 'linux-arm64'];

/** Packages written for CommonJS ask for built-in modules by `require`. */
const REQUIRE_BANNER =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);";

/** The operator, the thread that reads tenant APIs (operator/tenant-api/reading/foreign-reader.ts), and the ledger tool. */
const ENTRY_POINTS = {
  main: join(ROOT, 'operator/main.ts'),
  'tenant-reader': join(ROOT, 'operator/tenant-api/reading/worker.ts'),
  ledger: join(ROOT, 'scripts/ledger.ts'),
};

/**
 * Puts all that the image contains into a directory: the operator and its thread as one file each, the
 * dashboard's files beside them, and LevelDB's binding with its dependencies.
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
    // Short names inside, a third of all bytes; those of functions and classes stay, for stacks and for whoever reads them.
    minifyIdentifiers: true,
    keepNames: true,
    // The process holds its own text: with one character beyond Latin-1 all of it would take two bytes for each.
    charset: 'ascii',
    legalComments: 'external',
    external: [NATIVE_PACKAGE],
    // The other one reads a file beside itself, which is not there in a bundle.
    alias: { '@platformatic/wasm-utils': '@platformatic/wasm-utils/bundled' },
    banner: { js: REQUIRE_BANNER },
    logLevel: 'warning',
  });
  await writeFile(join(directory, 'package.json'), '{"type":"module"}\n');
  await copyDashboard(join(directory, 'client'));
  const level = dirname(manifestOf('level', ROOT));
  await copyPackage(NATIVE_PACKAGE, level, join(directory, 'node_modules'), new Set());
}

/** The scripts of the pages, each with all that it imports; a browser fetches one file instead of sixty. */
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

/** The libraries by the names that the pages have for them, and Preact by the name that its hooks have for it. */
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

/** A package and what it depends on, without sources, tests and other platforms' binaries. */
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

/** The package.json of a package as code in a directory would find it. */
function manifestOf(name: string, directory: string): string {
  return createRequire(join(directory, 'x.js')).resolve(`${name}/package.json`);
}

if (import.meta.main) {
  const directory = join(ROOT, 'dist');
  await bundle(directory);
  console.log(`bundled into ${directory}`);
}
