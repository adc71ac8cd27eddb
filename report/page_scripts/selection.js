// What is selected: the open item of the worklist, and one of its spans if a person has picked one.

export const selection = {item: null, span: null};
