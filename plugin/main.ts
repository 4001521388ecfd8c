import { run } from './run.ts';

/** Put in by scripts/bundle-plugin.ts; from the sources there is none. */
declare const PLUGIN_VERSION: string | undefined;

// Whoever reads the first lines only, such as `head`, has seen enough.
process.stdout.on('error', () => process.exit(0));

process.exitCode = await run(process.argv.slice(2), {
  environment: process.env,
  columns: process.stdout.columns,
  now: () => Date.now(),
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  version: typeof PLUGIN_VERSION === 'string' ? PLUGIN_VERSION : 'development',
});
