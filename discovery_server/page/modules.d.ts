// What the page uses of modules of other projects, which are brought without their types.
declare module "preact";
declare module "preact/hooks";
declare module "@preact/signals" {
  export interface Signal<T> {
    value: T;
    subscribe(run: (value: T) => void): () => void;
  }
  export function signal<T>(value: T): Signal<T>;
}
declare module "htm";
declare const uPlot: any;
