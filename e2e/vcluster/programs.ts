import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { findBinaries } from '../control-plane/binaries.ts';
import type { ControlPlaneBinaries } from '../control-plane/release.ts';
import { findGoTool, GO_TOOLS } from '../tools/go-tools.ts';

/** What a vCluster is made of, and what the cluster under it needs besides an API server. */
export interface Programs {
  readonly controlPlane: ControlPlaneBinaries;
  readonly vcluster: string;
  readonly controllerManager: string;
  readonly scheduler: string;
  /** The released default configuration, with telemetry switched off. */
  readonly config: string;
}

const MODULE = resolve(import.meta.dirname, '../tools/build/vcluster');

/** Finds or builds them, ten to fifteen minutes the first time. */
export async function findPrograms(progress: (line: string) => void): Promise<Programs> {
  return {
    controlPlane: await findBinaries({ assets: process.env['KUBEBUILDER_ASSETS'], progress }),
    controllerManager: await findGoTool('kube-controller-manager', progress),
    scheduler: await findGoTool('kube-scheduler', progress),
    vcluster: await findGoTool('vcluster', progress),
    config: await releasedConfig(),
  };
}

/** The module brings the defaults that its chart would write into a Secret; the program has none of its own. */
async function releasedConfig(): Promise<string> {
  const version = `github.com/loft-sh/vcluster@${GO_TOOLS.vcluster.version}`;
  const args = ['mod', 'download', '-json', version];
  const { stdout } = await promisify(execFile)('go', args, { cwd: MODULE });
  const { Dir: directory } = JSON.parse(stdout) as { readonly Dir: string };
  const text = await readFile(join(directory, 'config/values.yaml'), 'utf8');
  const silent = text.replace(/^telemetry:\n {2}enabled: true$/mu, 'telemetry:\n  enabled: false');
  if (silent === text) throw new Error(`vcluster: config/values.yaml: telemetry: not found`);
  return silent;
}
