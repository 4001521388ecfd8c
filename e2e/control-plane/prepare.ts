import { findBinaries } from './binaries.ts';

/** Makes sure that the control plane programs are there, showing progress, and prints their directory. */
const binaries = await findBinaries({
  assets: process.env['KUBEBUILDER_ASSETS'],
  progress: (line) => console.error(`[control plane] ${line}`),
}).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  return process.exit(1);
});
console.log(binaries.directory);
